"""One model call: build what the model sees, stream what it says, store the message."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from uuid import UUID

import structlog
from temporalio import activity

from activities.context import Bounds, ContextBuilder
from activities.errors import translated
from activities.extraction import Extracted, ExtractionBuilder
from adapters.postgres.turns import Completion, DoneTurn, OpenTurn, TurnStore
from adapters.stream import EventStream, TextWriter
from domain.context import Prepared
from domain.events import RunFinished
from domain.ids import tool_call_id
from domain.messages import FinishReason, ModelReply, Usage
from domain.ports import Model
from domain.prices import PriceTable, cost_micro_usd
from domain.runs import CallRef, Ended, TurnResult
from domain.text import clean
from domain.tools import ALL, MAX_CALLS, Denier, ToolCall, authorize

_log = structlog.get_logger(__name__)

_NAME_CHARACTERS = 64
"""Of a tool's name, as far as the engine is told: what a model makes up may be of any length."""
HEARTBEAT_S = 0.5
"""A cancel reaches a streaming activity with its next heartbeat, so this bounds an interrupt."""


@dataclass(frozen=True, slots=True)
class ModelTurnInput:
    """`model`: the name to call (a fallback, perhaps). `last`: no tools, the model must answer,
    because `limit` is reached. `may_end`: an answer without calls ends the run as well.
    `extract`: the answer is a list of operations on the memory; after turn 1, it is a repair."""

    run_key: UUID
    turn: int
    model: str
    last: bool = False
    limit: str | None = None
    may_end: bool = False
    extract: bool = False


@dataclass(frozen=True, slots=True)
class _InHand:
    """A model call that is being made."""

    input: ModelTurnInput
    bounds: Bounds
    opened: OpenTurn
    prepared: Prepared


class ModelActivities:
    def __init__(
        self,
        *,
        model: Model,
        turns: TurnStore,
        context: ContextBuilder,
        extraction: ExtractionBuilder,
        stream: EventStream,
        prices: PriceTable,
        delta_ms: int,
    ) -> None:
        self._model = model
        self._turns = turns
        self._context = context
        self._extraction = extraction
        self._stream = stream
        self._prices = prices
        self._delta_ms = delta_ms

    @activity.defn(name="model.turn")
    async def turn(self, input: ModelTurnInput) -> TurnResult:
        """Make the call of this turn once; run again, find what is stored.

        Where it may, a turn without calls ends the run in the statement that stores its message.
        Errors of the model are Temporal's to retry. A cancel closes the upstream connection and
        keeps the text that had arrived.
        """
        with translated():
            bounds = await self._context.bounds(input.run_key)
            async with heartbeats():
                await self._context.recollect(bounds)
                opened = await self._turns.begin(input.run_key, input.turn)
                if isinstance(opened, DoneTurn):
                    done = opened
                else:
                    done = await self._call(input, bounds, opened)
            published = [done.completed] + ([done.finished] if done.finished else [])
            await self._stream.publish(input.run_key, published)
            return await self._result(input, bounds, done)

    async def _call(self, input: ModelTurnInput, bounds: Bounds, opened: OpenTurn) -> DoneTurn:
        publishing = asyncio.create_task(self._stream.publish(input.run_key, [opened.started]))
        if input.extract:
            prepared = await self._extraction.build(bounds, input.model, input.turn)
        else:
            prepared = await self._context.build(bounds, input.model, last=input.last)
        await publishing
        call = _InHand(input, bounds, opened, prepared)
        spoken = Spoken(
            TextWriter(
                self._stream,
                input.run_key,
                opened.started.seq,
                opened.event.message_id,
                self._delta_ms,
            )
        )
        try:
            reply = await self._model.stream(prepared.request, spoken.on_text)
        except asyncio.CancelledError:
            await asyncio.shield(self._keep_partial(call, spoken))
            raise
        await spoken.writer.close()
        return await self._store(call, reply, spoken.text)

    async def _keep_partial(self, call: _InHand, spoken: "Spoken") -> None:
        """Store the text a stopped call had streamed, unless the call is only being moved."""
        await spoken.writer.close()
        details = activity.cancellation_details()
        if not spoken.text or details is None or not details.cancel_requested:
            return
        reply = ModelReply("", (), FinishReason.INTERRUPTED, Usage(), call.input.model)
        done = await self._store(call, reply, spoken.text)
        await self._stream.publish(call.input.run_key, [done.completed])

    async def _store(self, call: _InHand, reply: ModelReply, text: str) -> DoneTurn:
        input, interrupted = call.input, reply.finish_reason is FinishReason.INTERRUPTED
        came_to = Extracted(_calls_of(input, reply))
        if input.extract:
            came_to = (
                Extracted()
                if interrupted
                else await self._extraction.read(call.bounds, input.turn, text)
            )
        completion = Completion(
            text=text,
            tool_calls=came_to.calls,
            finish_reason=reply.finish_reason,
            model=reply.model or input.model,
            usage=reply.usage,
            cost_micro_usd=cost_micro_usd(reply.usage, self._prices.get(input.model)),
            seen=call.prepared.seen.document(),
            ends=input.may_end
            and not interrupted
            and came_to.invalid is None
            and (input.last or not came_to.calls),
            limit=input.limit,
        )
        return await self._turns.complete(input.run_key, call.opened, completion)

    async def _result(self, input: ModelTurnInput, bounds: Bounds, done: DoneTurn) -> TurnResult:
        """The calls by reference, each with the verdict of the three lists."""
        event = done.event
        result = TurnResult(
            event.message_id,
            tuple(_reference(bounds, *each) for each in enumerate(event.tool_calls)),
            event.finish_reason,
            over_cost=bounds.over_cost(done.run_cost_micro_usd),
            cost_step=bounds.cost_step(done.run_cost_micro_usd),
            ended=_ended(done),
        )
        if not input.extract:
            return result
        read = await self._extraction.read(bounds, input.turn, event.text, event.finish_reason)
        # One by one: what is said later must not be written first.
        in_order = tuple(replace(call, parallel_safe=False) for call in result.calls)
        return replace(result, calls=in_order, invalid=read.invalid)


def _calls_of(input: ModelTurnInput, reply: ModelReply) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(tool_call_id(input.run_key, input.turn, i), call.name, clean(call.arguments))
        for i, call in enumerate(reply.tool_calls)
    )


def _ended(done: DoneTurn) -> Ended | None:
    if done.finished is None:
        return None
    assert isinstance(done.finished.event, RunFinished)
    return Ended(done.finished.event.status, done.run_cost_micro_usd, done.next_run)


def _reference(bounds: Bounds, place: int, call: ToolCall) -> CallRef:
    spec = bounds.specs.get(call.name)
    return CallRef(
        call_id=call.id,
        name=call.name[:_NAME_CHARACTERS],
        refused_by=Denier.LIMIT
        if place >= MAX_CALLS
        else authorize(call.name, bounds.specs, bounds.lists),
        quick=spec is not None and spec.quick,
        parallel_safe=spec is None or spec.parallel_safe,
        idempotent=spec is None or spec.idempotent,
        timeout_s=spec.timeout_s if spec is not None else 10.0,
        review=spec is not None and (spec.asks or _listed(spec.name, bounds)),
    )


def _listed(name: str, bounds: Bounds) -> bool:
    """Whether the profile wants each call of this tool approved."""
    listed = bounds.profile.require_approval
    return name in listed or ALL in listed


class Spoken:
    """The text of one call as it grows, cleaned once, streamed and kept alike."""

    def __init__(self, writer: TextWriter) -> None:
        self.writer = writer
        self._pieces: list[str] = []

    async def on_text(self, text: str) -> None:
        text = clean(text)
        self._pieces.append(text)
        await self.writer.write(text)

    @property
    def text(self) -> str:
        return "".join(self._pieces)


@asynccontextmanager
async def heartbeats() -> AsyncGenerator[None]:
    """Heartbeat beside the work: it may be silent for long, and a cancel comes this way."""

    async def beat() -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            activity.heartbeat()

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
