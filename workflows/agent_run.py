"""One agent run: think, act, repeat, until the model has nothing left to call."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities import attributes
    from domain.errors import ErrorCode
    from domain.events import Notice, RunStatus
    from domain.ids import AGENT_RUN
    from domain.runs import (
        AgentRunInput,
        AgentRunResult,
        Ended,
        Ending,
        Placement,
        RunPlan,
        TurnResult,
        limit_reached,
        may_repair,
    )
    from workflows import steps
    from workflows.asking import Asking
    from workflows.calls import carry_out
    from workflows.desk import Desk
    from workflows.interrupting import Interruptible
    from workflows.steps import Steps
    from workflows.turns import Queueing, call_next


@workflow.defn(name=AGENT_RUN)
class AgentRunWorkflow(Asking, Interruptible, Queueing):
    """Everything a run says and does is in PostgreSQL; what crosses here is ids and verdicts."""

    @workflow.init
    def __init__(self, input: AgentRunInput) -> None:
        self._state = input
        self._plan: RunPlan | None = None
        self._ended: Ended | None = None  # once the last turn has ended the run
        self._desk = Desk(input.run_key, self._quick, steps.standing, input.put, input.waited_s)

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
        at = self._state
        return AgentRunResult(ended.status, at.turn, at.message_id, ending.limit)

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
        try:
            return await self._unless_interrupted(self._converse())
        except (ActivityError, ApplicationError) as error:
            return steps.ending_of(error, self._plan, self._desk.waited)

    async def _converse(self) -> Ending:
        if self._state.queued:
            if not await self._let_in(self._state.run_key):
                workflow.continue_as_new(self._state)
            self._state = replace(self._state, queued=False)
        self._plan = plan = await steps.begin(self._state.run_key)
        if plan is None:
            return Ending(RunStatus.FAILED, "ended", "The run had ended before it began.")
        self._desk.manners = plan.manners
        step = Steps(self._state.run_key, plan, self._desk)
        if step.extracts():
            return await self._extract(step)
        while True:
            if stop := await self._desk.hold():
                return Ending(RunStatus.INTERRUPTED, "cancelled", stop)
            limit = await self._limit(step)
            reply = await self._think(step, limit)
            if not reply.calls or limit is not None:
                return Ending(RunStatus.COMPLETED, limit=limit)
            await self._act(step, reply)
            if reply.cost_step > self._state.cost_step:
                self._state = replace(self._state, cost_step=reply.cost_step)
                self._desk.add((await step.raise_cost(reply.cost_step),))
            if workflow.info().is_continue_as_new_suggested() and not self._desk.pending():
                waited, put = self._desk.waited.total_seconds(), self._desk.put
                workflow.continue_as_new(replace(self._state, waited_s=waited, put=put))

    async def _extract(self, step: Steps) -> Ending:
        """One answer, a list of operations, asked for once more if it is none; then do those."""
        reply = await self._think(step, None, extract=True)
        if reply.invalid is not None and may_repair(step.plan, self._state):
            reply = await self._think(step, None, extract=True)
        if reply.invalid is not None:
            return Ending(RunStatus.FAILED, ErrorCode.INVALID_OUTPUT, reply.invalid)
        await self._act(step, reply)
        return Ending(RunStatus.COMPLETED)

    async def _limit(self, step: Steps) -> str | None:
        """The limit that makes this turn the last; readers are told of a spent token budget."""
        limit = limit_reached(step.plan, self._state)
        if limit == "turn_budget_tokens":
            spent = {"limit": step.plan.turn_budget_tokens, "used": self._state.tool_tokens}
            await step.notice(Notice("varve.budget", spent), "token budget spent")
        return limit

    async def _think(self, step: Steps, limit: str | None, *, extract: bool = False) -> TurnResult:
        turn = self._state.turn + 1
        reply = await step.model_turn(turn, limit, extract=extract)
        self._ended = reply.ended
        self._state = replace(
            self._state, turn=turn, message_id=reply.message_id, over_cost=reply.over_cost
        )
        return reply

    async def _act(self, step: Steps, reply: TurnResult) -> None:
        tokens = self._state.tool_tokens + await carry_out(step, reply)
        self._state = replace(self._state, tool_tokens=tokens)

    async def _finish(self, ending: Ending) -> Ended:
        """Record the end, unless the last turn did."""
        ended = self._ended or await steps.finish(self._state.run_key, self._plan, ending)
        workflow.upsert_search_attributes(attributes.at_end(ended, self._plan))
        await call_next(ended)
        return ended

    async def _quick(self, method: Callable[..., Any], input: Any, summary: str) -> Any:
        placement = self._plan.placement if self._plan else Placement.LEAN
        return await steps.quick_step(placement, method, input, summary)
