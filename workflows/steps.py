"""The steps of a run: each one activity, with its options. In which order is agent_run.py's."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.model import ModelActivities, ModelTurnInput
    from activities.runs import BeginInput, FinishInput, NoticeInput, RunActivities
    from activities.tools import ToolActivities, ToolCallInput, ToolFailureInput
    from domain.errors import ErrorCode
    from domain.events import Notice
    from domain.profiles import Executor
    from domain.runs import (
        CallRef,
        Ended,
        Ending,
        Placement,
        RunPlan,
        TurnResult,
        ending_of_failure,
    )
    from workflows.options import model_call, quick, quick_local, tool_call

MEMORY_EXECUTOR = "memory-executor"


async def begin(run_key: UUID) -> RunPlan | None:
    """Resolve and freeze the profile; None if the run has ended before it began."""
    return await _quick(
        Placement.LEAN, RunActivities.begin, BeginInput(run_key), "resolve the execution profile"
    )


async def finish(run_key: UUID, plan: RunPlan | None, ending: Ending) -> Ended:
    placement = plan.placement if plan else Placement.LEAN
    summary = f"end: {ending.status}"
    return await _quick(placement, RunActivities.finish, FinishInput(run_key, ending), summary)


def ending_of(error: ActivityError | ApplicationError, plan: RunPlan | None) -> Ending:
    """How a run ends whose step failed for good."""
    cause = error if isinstance(error, ApplicationError) else error.cause
    timed_out = plan is not None and workflow.now() >= plan.deadline
    message = getattr(cause, "message", None) or str(cause)
    return ending_of_failure(getattr(cause, "type", None), message, timed_out)


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a run that has begun."""

    run_key: UUID
    plan: RunPlan

    def extracts(self) -> bool:
        """Whether the run's one answer is a list of operations. Older memory runs converse."""
        memory = self.plan.executor == Executor.MEMORY
        return memory and workflow.patched(MEMORY_EXECUTOR)

    async def model_turn(
        self, turn: int, limit: str | None, *, extract: bool = False
    ) -> TurnResult:
        """One model call; where the model stays unreachable, its fallbacks in order."""
        *fallible, final = self.plan.models
        for model in fallible:
            try:
                return await self._model_turn(model, turn, limit, extract)
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                workflow.logger.warning("model_fell_back", extra={"model": model})
        return await self._model_turn(final, turn, limit, extract)

    async def _model_turn(
        self, model: str, turn: int, limit: str | None, extract: bool
    ) -> TurnResult:
        last, plan = limit is not None, self.plan
        lean = plan.placement is Placement.LEAN  # else the end is a step of its own, to be seen
        summary = f"model {model}, turn {turn}" + (", last" if last else "")
        return await workflow.execute_activity_method(
            ModelActivities.turn,
            ModelTurnInput(self.run_key, turn, model, last, limit, lean, extract),
            **model_call(summary, plan.timing, self._remaining(), plan.model_queue),
        )

    async def tool_call(self, message_id: str, call: CallRef) -> int:
        """Run a call, or record why not. Returns the size of its result in tokens."""
        plan, by = self.plan, call.refused_by
        input = ToolCallInput(self.run_key, message_id, call.call_id, by)
        if by is not None:
            summary = f"tool {call.name}: denied by {by} list"
            return await self._quick(ToolActivities.refuse, input, summary)
        if call.quick:
            return await self._quick(ToolActivities.call, input, f"tool {call.name}")
        try:
            return await workflow.execute_activity_method(
                ToolActivities.call,
                input,
                **tool_call(call, plan.timing, self._remaining(), plan.tool_queue),
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            reason = f"{call.name} failed and its outcome is unknown: {error.cause or error}"
            failed = ToolFailureInput(self.run_key, message_id, call.call_id, reason)
            return await self._quick(ToolActivities.fail, failed, f"tool {call.name}: failed")

    async def notice(self, notice: Notice, summary: str) -> None:
        await self._quick(RunActivities.notice, NoticeInput(self.run_key, notice), summary)

    async def _quick(self, method: Callable[..., Any], input: Any, summary: str) -> Any:
        return await _quick(self.plan.placement, method, input, summary)

    def _remaining(self) -> timedelta:
        """Time left before the run's deadline; raises when there is none."""
        left = self.plan.deadline - workflow.now()
        if left <= timedelta(0):
            raise ApplicationError("The run took too long.", type=ErrorCode.TIMEOUT)
        return left


async def _quick(placement: Placement, method: Callable[..., Any], input: Any, summary: str) -> Any:
    """A step that touches only our database: inside the workflow task, or visibly beside it."""
    if placement is Placement.LEAN:
        return await workflow.execute_local_activity_method(method, input, **quick_local(summary))
    return await workflow.execute_activity_method(method, input, **quick(summary))
