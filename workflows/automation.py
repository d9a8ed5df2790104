"""A job fires: take its slot, read what is new window by window, and say how it went."""

import asyncio
from dataclasses import replace
from datetime import datetime
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.attributes import outcome_of_job
    from activities.automation import AutomationActivities, EndInput, WindowInput
    from domain.automation import (
        AutomationInput,
        AutomationResult,
        Failure,
        Firing,
        Held,
    )
    from domain.ids import AUTOMATION
    from domain.jobs import SlotStatus
    from workflows import windows
    from workflows.options import quick_local
    from workflows.windows import WindowFailed

_SCHEDULED_AT = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")


@workflow.defn(name=AUTOMATION)
class AutomationWorkflow:
    """Which slots ran and what they read is in PostgreSQL; what crosses here is ids."""

    @workflow.init
    def __init__(self, input: AutomationInput) -> None:
        self._state = input
        info = workflow.info()
        self._firing = Firing(
            job_id=input.job_id,
            workflow_id=info.workflow_id,
            workflow_run_id=info.first_execution_run_id,
            scheduled_at=_scheduled_at(),
        )

    @workflow.run
    async def run(self, input: AutomationInput) -> AutomationResult:
        held = input.holding
        if held is None:
            answer = await workflow.execute_local_activity_method(
                AutomationActivities.claim, self._firing, **quick_local("claim the slot")
            )
            if answer.held is None:
                return self._refused(answer.slot, answer.outcome or "skipped", answer.reason)
            held = answer.held
            self._state = replace(input, holding=held)
        try:
            failure = await self._read(held)
        except asyncio.CancelledError:
            await self._end(held, Failure("cancelled", "The slot was cancelled."))
            raise
        return await self._end(held, failure)

    @workflow.query
    def status(self) -> dict[str, Any]:
        """Where the slot is, for operators."""
        held = self._state.holding
        return {
            "job": str(self._state.job_id),
            "slot": held.slot if held else None,
            "attempt": held.attempt if held else None,
            "windows": self._state.number,
        }

    async def _read(self, held: Held) -> Failure | None:
        """One run after another, until nothing is left or one of them fails."""
        job_id = self._state.job_id
        try:
            while await windows.read(WindowInput(job_id, held, self._state.number + 1)):
                self._state = replace(self._state, number=self._state.number + 1)
                if workflow.info().is_continue_as_new_suggested():
                    workflow.continue_as_new(self._state)
        except WindowFailed as error:
            return error.failure
        except (ActivityError, ApplicationError) as error:
            if is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            cause = error if isinstance(error, ApplicationError) else error.cause
            message = getattr(cause, "message", None) or str(cause)
            return Failure(getattr(cause, "type", None) or "internal", message)
        return None

    async def _end(self, held: Held, failure: Failure | None) -> AutomationResult:
        if failure is not None:
            status = SlotStatus.FAILED
        else:
            status = SlotStatus.COMPLETED if self._state.number else SlotStatus.NOTHING_NEW
        await workflow.execute_local_activity_method(
            AutomationActivities.end,
            EndInput(self._firing, held.slot, status, failure),
            **quick_local(f"end: {status}"),
        )
        workflow.upsert_search_attributes(outcome_of_job(status))
        if failure is not None:
            raise ApplicationError(failure.message, type=failure.code, non_retryable=True)
        return AutomationResult(status, held.slot, held.attempt, self._state.number)

    def _refused(self, slot: str | None, outcome: str, reason: str | None) -> AutomationResult:
        workflow.upsert_search_attributes(outcome_of_job(outcome))
        if outcome == SlotStatus.FAILED:
            raise ApplicationError(reason or outcome, type="profile", non_retryable=True)
        return AutomationResult(outcome, slot, reason=reason)


def _scheduled_at() -> datetime:
    """When this firing was due, before jitter; for one without a Schedule, when it began."""
    return workflow.info().typed_search_attributes.get(_SCHEDULED_AT) or workflow.info().start_time
