"""One agent run: think, act, repeat, until the model has nothing left to call."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities import attributes
    from activities.model import ModelActivities, ModelTurnInput
    from activities.runs import BeginInput, FinishInput, NoticeInput, RunActivities
    from activities.tools import ToolActivities, ToolCallInput, ToolFailureInput
    from domain.errors import ErrorCode
    from domain.events import Notice, RunStatus
    from domain.ids import AGENT_RUN
    from domain.runs import (
        AgentRunInput,
        AgentRunResult,
        CallRef,
        Ended,
        Ending,
        Placement,
        RunPlan,
        TurnResult,
        ending_of_failure,
        waves,
    )
    from workflows.options import model_call, quick, quick_local, tool_call


@workflow.defn(name=AGENT_RUN)
class AgentRunWorkflow:
    """Everything a run says and does is in PostgreSQL; what crosses here is ids and verdicts."""

    @workflow.init
    def __init__(self, input: AgentRunInput) -> None:
        self._state = input
        self._plan: RunPlan | None = None
        self._interrupted: str | None = None
        self._ended: Ended | None = None  # once the last turn has ended the run

    @workflow.run
    async def run(self, input: AgentRunInput) -> AgentRunResult:
        try:
            ending = await self._until_done()
        except asyncio.CancelledError:
            await self._finish(Ending(RunStatus.INTERRUPTED, "cancelled", "The run was cancelled."))
            raise
        ended = await self._finish(ending)
        await workflow.wait_condition(workflow.all_handlers_finished)
        if ended.status is RunStatus.FAILED:
            raise ApplicationError(
                ending.message or "The run failed.", type=ending.code, non_retryable=True
            )
        state = self._state
        return AgentRunResult(ended.status, state.turn, state.message_id, ending.limit)

    @workflow.signal
    def interrupt(self, reason: str) -> None:
        """Stop now and keep what is done. A second one, or one that comes late, changes nothing."""
        self._interrupted = self._interrupted or reason or "Interrupted."

    @workflow.query
    def status(self) -> dict[str, Any]:
        """Where the run is, for operators."""
        plan = self._plan
        return {
            "turn": self._state.turn,
            "profile": plan.profile if plan else None,
            "model": plan.models[0] if plan else None,
            "interrupted": self._interrupted,
        }

    async def _until_done(self) -> Ending:
        """Converse until there is an end, or until somebody says stop."""
        work = asyncio.create_task(self._converse())
        try:
            await workflow.wait_condition(lambda: work.done() or self._interrupted is not None)
        except asyncio.CancelledError:  # of the whole workflow: what was said is kept first
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise
        if self._interrupted is not None and not work.done():
            work.cancel()
        try:
            return await work
        except asyncio.CancelledError:
            if self._interrupted is None:
                raise
            return Ending(RunStatus.INTERRUPTED, "cancelled", self._interrupted)
        except (ActivityError, ApplicationError) as error:
            if self._interrupted is not None and is_cancelled_exception(error):
                return Ending(RunStatus.INTERRUPTED, "cancelled", self._interrupted)
            return self._failure(error)

    async def _converse(self) -> Ending:
        plan = self._plan = await self._step(
            RunActivities.begin, BeginInput(self._state.run_key), "resolve the execution profile"
        )
        if plan is None:
            return Ending(RunStatus.FAILED, "ended", "The run had ended before it began.")
        limit: str | None = None
        while True:
            reply = await self._think(plan, limit)
            self._ended = reply.ended
            if not reply.calls or limit is not None:
                return Ending(RunStatus.COMPLETED, limit=limit)
            await self._act(plan, reply)
            limit = await self._limit(plan, reply)
            if limit is None and workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._state)

    async def _think(self, plan: RunPlan, limit: str | None) -> TurnResult:
        """One model turn; where the model stays unreachable, its fallbacks in order."""
        turn, last = self._state.turn + 1, limit is not None
        lean = plan.placement is Placement.LEAN  # else the end is a step of its own, to be seen
        for place, model in enumerate(plan.models, start=1):
            try:
                reply = await workflow.execute_activity_method(
                    ModelActivities.turn,
                    ModelTurnInput(self._state.run_key, turn, model, last, limit, lean),
                    **model_call(
                        f"model {model}, turn {turn}" + (", last" if last else ""),
                        plan.timing,
                        self._remaining(plan),
                        plan.model_queue,
                    ),
                )
            except ActivityError as error:
                if is_cancelled_exception(error) or place == len(plan.models):
                    raise
                workflow.logger.warning("model_fell_back", extra={"model": model})
            else:
                self._state = replace(self._state, turn=turn, message_id=reply.message_id)
                return reply
        raise AssertionError("a plan names at least one model")

    async def _act(self, plan: RunPlan, reply: TurnResult) -> None:
        """Run the calls side by side where they may, at most eight at once."""
        for wave in waves(reply.calls):
            sizes = await asyncio.gather(*(self._call(plan, reply.message_id, c) for c in wave))
            tokens = self._state.tool_tokens + sum(sizes)
            self._state = replace(self._state, tool_tokens=tokens)

    async def _call(self, plan: RunPlan, message_id: str, call: CallRef) -> int:
        input = ToolCallInput(self._state.run_key, message_id, call.call_id)
        if call.refused_by is not None:
            summary = f"tool {call.name}: denied by {call.refused_by} list"
            return await self._step(ToolActivities.refuse, input, summary)
        if call.quick:
            return await self._step(ToolActivities.call, input, f"tool {call.name}")
        try:
            return await workflow.execute_activity_method(
                ToolActivities.call,
                input,
                **tool_call(call, plan.timing, self._remaining(plan), plan.tool_queue),
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            reason = f"{call.name} failed and its outcome is unknown: {error.cause or error}"
            failed = ToolFailureInput(self._state.run_key, message_id, call.call_id, reason)
            return await self._step(ToolActivities.fail, failed, f"tool {call.name}: failed")

    async def _limit(self, plan: RunPlan, reply: TurnResult) -> str | None:
        """The limit that is reached, if one is: the next turn is then the last, without tools."""
        if self._state.turn >= plan.max_turns - 1:
            return "max_turns"
        if reply.over_cost:
            return "max_cost_usd"
        if self._state.tool_tokens < plan.turn_budget_tokens:
            return None
        notice = Notice(
            "varve.budget",
            {"limit": plan.turn_budget_tokens, "used": self._state.tool_tokens},
        )
        await self._step(
            RunActivities.notice, NoticeInput(self._state.run_key, notice), "token budget spent"
        )
        return "turn_budget_tokens"

    async def _finish(self, ending: Ending) -> Ended:
        ended = self._ended or await self._step(
            RunActivities.finish, FinishInput(self._state.run_key, ending), f"end: {ending.status}"
        )
        workflow.upsert_search_attributes(attributes.at_end(ended, self._plan))
        return ended

    async def _step(self, method: Callable[..., Any], input: Any, summary: str) -> Any:
        """A step that touches only our database: inside the workflow task, or visibly beside it."""
        if self._plan is None or self._plan.placement is Placement.LEAN:
            return await workflow.execute_local_activity_method(
                method, input, **quick_local(summary)
            )
        return await workflow.execute_activity_method(method, input, **quick(summary))

    def _remaining(self, plan: RunPlan) -> timedelta:
        """Time left before the run's deadline; raises when there is none."""
        left = plan.deadline - workflow.now()
        if left <= timedelta(0):
            raise ApplicationError("The run took too long.", type=ErrorCode.TIMEOUT)
        return left

    def _failure(self, error: ActivityError | ApplicationError) -> Ending:
        cause = error if isinstance(error, ApplicationError) else error.cause
        timed_out = self._plan is not None and workflow.now() >= self._plan.deadline
        message = getattr(cause, "message", None) or str(cause)
        return ending_of_failure(getattr(cause, "type", None), message, timed_out)
