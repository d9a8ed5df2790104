"""Questions to people: written down, put, reminded of, and what was answered."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from temporalio import activity

from activities.context import Bounds, ContextBuilder
from activities.errors import translated
from adapters.postgres.checkpoint_changes import CheckpointChanges, Done
from adapters.postgres.checkpoints import AboutCall, CheckpointStore
from adapters.postgres.messages import MessageStore
from adapters.postgres.runs import RunStore
from adapters.stream import EventStream
from adapters.tools.arguments import parsed
from adapters.tools.registry import Registry
from domain.asked import cost_question
from domain.checkpoints import (
    APPROVE_SESSION,
    AnswerInput,
    Refusal,
    Scenario,
    checkpoint_id,
)
from domain.desk import Decision, Raised, Reviewed, Verdict, raised
from domain.tools import ToolCall


@dataclass(frozen=True, slots=True)
class ReviewInput:
    """Calls of one message that a person may have to be asked about."""

    run_key: UUID
    message_id: str
    call_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PutInput:
    """`opened`: (id, deadline); `queued`: those that wait, so that people know."""

    run_key: UUID
    opened: tuple[tuple[str, datetime | None], ...]
    queued: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemindInput:
    run_key: UUID
    checkpoint_id: str
    count: int  # with this one


@dataclass(frozen=True, slots=True)
class ExpireInput:
    run_key: UUID
    checkpoint_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CountInput:
    """Answers that the run has accepted."""

    run_key: UUID
    answers: AnswerInput


@dataclass(frozen=True, slots=True)
class Counted:
    """What became of questions: by answers, or by their time being over. `refusal`: why answers
    don't count after all; `run_id`: of the segment that the run is in, if it goes on."""

    decisions: tuple[Decision, ...]
    run_id: str | None = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class CostInput:
    """`step`: how often people were asked about it, with this time."""

    run_key: UUID
    step: int


@dataclass(frozen=True, slots=True)
class PauseInput:
    run_key: UUID


class CheckpointActivities:
    def __init__(
        self,
        *,
        checkpoints: CheckpointStore,
        changes: CheckpointChanges,
        runs: RunStore,
        messages: MessageStore,
        registry: Registry,
        context: ContextBuilder,
        stream: EventStream,
    ) -> None:
        self._checkpoints = checkpoints
        self._changes = changes
        self._runs = runs
        self._messages = messages
        self._registry = registry
        self._context = context
        self._stream = stream

    @activity.defn(name="checkpoints.review")
    async def review(self, input: ReviewInput) -> tuple[Reviewed, ...]:
        """Which of these calls may run, which were refused before, and what the others ask."""
        with translated():
            bounds = await self._context.bounds(input.run_key)
            message = await self._messages.get(bounds.run.session_key, input.message_id)
            calls = [c for c in message.tool_calls if c.id in input.call_ids] if message else []
            return tuple([await self._review(bounds, input.message_id, call) for call in calls])

    async def _review(self, bounds: Bounds, message_id: str, call: ToolCall) -> Reviewed:
        listed = bounds.profile.require_approval
        where = self._context.tool_context(bounds, call)
        question = await self._registry.question(call, listed, where)
        if question is None:
            return Reviewed(call.id, Verdict.RUN)
        about = AboutCall(call.id, call.name, parsed(call))
        if question.scenario is Scenario.HIGH_RISK:
            decided = await self._checkpoints.decided(bounds.run.key, about)
            if decided is not None:
                granted = decided == APPROVE_SESSION
                return Reviewed(call.id, Verdict.RUN if granted else Verdict.REFUSED)
        id = checkpoint_id(bounds.run.key, call.id)
        await self._checkpoints.raise_(bounds.run.key, id, question, message_id, about)
        return Reviewed(call.id, Verdict.ASK, raised(id, question, call.id, message_id))

    @activity.defn(name="checkpoints.put")
    async def put(self, input: PutInput) -> None:
        with translated():
            await self._told(
                input.run_key,
                await self._changes.put(input.run_key, input.opened, input.queued),
            )

    @activity.defn(name="checkpoints.remind")
    async def remind(self, input: RemindInput) -> None:
        with translated():
            done = await self._changes.remind(input.run_key, input.checkpoint_id, input.count)
            await self._told(input.run_key, done)

    @activity.defn(name="checkpoints.expire")
    async def expire(self, input: ExpireInput) -> Counted:
        with translated():
            done = await self._changes.expire(input.run_key, input.checkpoint_ids)
            await self._told(input.run_key, done)
            return Counted(done.decisions, done.run_id)

    @activity.defn(name="checkpoints.answer")
    async def answer(self, input: CountInput) -> Counted:
        with translated():
            done = await self._changes.answer(input.run_key, input.answers)
            await self._told(input.run_key, done)
            return Counted(done.decisions, done.run_id, done.refusal)

    @activity.defn(name="checkpoints.cost")
    async def cost(self, input: CostInput) -> Raised:
        """Write down the question whether a run that has cost so much may go on."""
        with translated():
            bounds = await self._context.bounds(input.run_key)
            run = await self._runs.get_by_key(input.run_key)
            limit = bounds.profile.limits.ask_cost_usd or "0"
            question = cost_question(run.cost_micro_usd, limit)
            subject = f"cost:{input.step}"
            id = checkpoint_id(input.run_key, subject)
            await self._checkpoints.raise_(input.run_key, id, question, subject, None)
            return raised(id, question, subject, subject)

    @activity.defn(name="checkpoints.pause")
    async def pause(self, input: PauseInput) -> bool:
        """Say that nothing but people is waited for; False if that is not so (any more)."""
        with translated():
            done = await self._changes.pause(input.run_key)
            await self._told(input.run_key, done)
            return done.stands

    async def _told(self, run_key: UUID, done: Done) -> None:
        await self._stream.publish(run_key, done.events)
