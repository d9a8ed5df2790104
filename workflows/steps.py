"""The steps of a run: each one activity, with its options. In which order is agent_run.py's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    TimeoutError,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    from activities import attributes
    from activities.checkpoints import CheckpointActivities, CostInput, ReviewInput
    from activities.model import ModelActivities, ModelTurnInput
    from activities.runs import BeginInput, FinishInput, NoticeInput, RunActivities
    from activities.tools import ToolActivities, ToolCallInput, ToolFailureInput
    from domain.desk import Raised, Reviewed
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
    from domain.tools import Denier
    from workflows.desk import Desk
    from workflows.options import model_call, quick, quick_local, tool_call

MEMORY_EXECUTOR = "memory-executor"


async def begin(run_key: UUID) -> RunPlan | None:
    """Resolve and freeze the profile; None if the run has ended before it began."""
    return await quick_step(
        Placement.LEAN, RunActivities.begin, BeginInput(run_key), "resolve the execution profile"
    )


async def admit(run_key: UUID) -> bool:
    """Let a queued run into its session; False if it is not its turn."""
    step = RunActivities.admit
    return await quick_step(Placement.LEAN, step, BeginInput(run_key), "is it its turn?")


async def finish(run_key: UUID, plan: RunPlan | None, ending: Ending) -> Ended:
    placement = plan.placement if plan else Placement.LEAN
    summary = f"end: {ending.status}"
    return await quick_step(placement, RunActivities.finish, FinishInput(run_key, ending), summary)


def standing(still: bool) -> None:
    """Show operators whether the run waits for people."""
    workflow.upsert_search_attributes(attributes.at_standstill(still))


def ending_of(
    error: ActivityError | ApplicationError, plan: RunPlan | None, waited: timedelta
) -> Ending:
    """How a run ends whose step failed for good. `waited`: for people, which is not its time."""
    cause = error if isinstance(error, ApplicationError) else error.cause
    timed_out = plan is not None and workflow.now() >= plan.deadline + waited
    message = getattr(cause, "message", None) or str(cause)
    return ending_of_failure(code_of(cause), message, timed_out)


def code_of(cause: BaseException | None) -> str | None:
    """The slug of what ended a step: our own, or that a worker fell silent or was too slow."""
    if isinstance(cause, TimeoutError):
        return ErrorCode.TIMEOUT
    return cause.type if isinstance(cause, ApplicationError) else None


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a run that has begun."""

    run_key: UUID
    plan: RunPlan
    desk: Desk

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
            whose = "a person" if by is Denier.PERSON else f"{by} list"
            summary = f"tool {call.name}: denied by {whose}"
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

    async def review(self, message_id: str, calls: Sequence[CallRef]) -> tuple[Reviewed, ...]:
        """Which of these calls may run, and which a person has to be asked about first."""
        input = ReviewInput(self.run_key, message_id, tuple(call.call_id for call in calls))
        names = ", ".join(dict.fromkeys(call.name for call in calls))
        return await self._quick(CheckpointActivities.review, input, f"review {names}"[:200])

    async def raise_cost(self, step: int) -> Raised:
        """Write down the question whether a run that has cost so much may go on."""
        input = CostInput(self.run_key, step)
        return await self._quick(CheckpointActivities.cost, input, "it has cost much")

    async def answered(self, message_id: str, call: CallRef) -> int:
        """Give a call that was a question what came of it. Returns its size in tokens."""
        input = ToolCallInput(self.run_key, message_id, call.call_id)
        return await self._quick(ToolActivities.answered, input, f"tool {call.name}: the answer")

    async def notice(self, notice: Notice, summary: str) -> None:
        await self._quick(RunActivities.notice, NoticeInput(self.run_key, notice), summary)

    async def _quick(self, method: Callable[..., Any], input: Any, summary: str) -> Any:
        return await quick_step(self.plan.placement, method, input, summary)

    def _remaining(self) -> timedelta:
        """Time left before the run's deadline; raises when there is none."""
        left = self.plan.deadline + self.desk.waited - workflow.now()
        if left <= timedelta(0):
            raise ApplicationError("The run took too long.", type=ErrorCode.TIMEOUT)
        return left


async def quick_step(
    placement: Placement, method: Callable[..., Any], input: Any, summary: str
) -> Any:
    """A step that touches only our database: inside the workflow task, or visibly beside it."""
    if placement is Placement.LEAN:
        return await workflow.execute_local_activity_method(method, input, **quick_local(summary))
    return await workflow.execute_activity_method(method, input, **quick(summary))
