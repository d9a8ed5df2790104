"""A worker's writing without a worker: runs in real stores, with any part of it left out."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from adapters.live import LiveEvents
from adapters.live_hub import LiveHub
from adapters.postgres.events import EventStore
from adapters.postgres.pool import Pool
from adapters.postgres.runs import RunStore
from adapters.postgres.turns import Completion, OpenTurn, TurnStore
from adapters.stream import EventStream, TextWriter, open_redis
from domain.events import Recorded, RunFinished, RunStatus, TextDelta, TurnCompleted
from domain.messages import FinishReason, Usage
from domain.runs import Ending, Run
from tests.people import accept, add_owner, begin


class Feed:
    """One run as its worker writes it. `publish=False`: that part never reaches Redis."""

    def __init__(self, pool: Pool, stream: EventStream, run: Run) -> None:
        self._pool = pool
        self._stream = stream
        self.run = run
        self.turn = 0

    @classmethod
    async def start(cls, pool: Pool, stream: EventStream, *, publish: bool = True) -> "Feed":
        accepted = await accept(pool, await add_owner(pool))
        await begin(pool, accepted.run.key)
        feed = cls(pool, stream, accepted.run)
        assert accepted.started is not None
        await feed._publish(accepted.started, publish)
        return feed

    @property
    def key(self) -> UUID:
        return self.run.key

    async def open(self, *, publish: bool = True) -> OpenTurn:
        """Begin the next model call, or another attempt of the one in hand."""
        opened = await TurnStore(self._pool).begin(self.key, self.turn + 1)
        assert isinstance(opened, OpenTurn)
        await self._publish(opened.started, publish)
        return opened

    async def say(self, opened: OpenTurn, *pieces: str) -> None:
        """Stream these pieces, each as a delta of its own."""
        for place in range(len(pieces)):
            said = "".join(pieces[:place])
            writer = self.writer(opened)
            writer.end = len(said)
            await writer.write(pieces[place])
            await writer.close()

    def writer(self, opened: OpenTurn, interval_ms: int = 0) -> TextWriter:
        seq, message_id = opened.started.seq, opened.event.message_id
        return TextWriter(self._stream, self.key, seq, message_id, interval_ms)

    async def complete(self, opened: OpenTurn, text: str, *, publish: bool = True) -> None:
        done = await TurnStore(self._pool).complete(
            self.key, opened, Completion(text, (), FinishReason.STOP, "m", Usage(1, 1), 0, {})
        )
        self.turn += 1
        await self._publish(done.completed, publish)

    async def finish(self, *, publish: bool = True) -> None:
        recorded, _ = await RunStore(self._pool).finish(self.key, Ending(RunStatus.COMPLETED))
        assert recorded is not None
        await self._publish(recorded, publish)

    async def turn_of(self, *pieces: str) -> None:
        """A whole turn."""
        opened = await self.open()
        await self.say(opened, *pieces)
        await self.complete(opened, "".join(pieces))

    async def _publish(self, item: Recorded, publish: bool) -> None:
        if publish:
            await self._stream.publish(self.key, [item])


@asynccontextmanager
async def reading(
    url: str, pool: Pool, *, capacity: int = 1_000, poll_s: float = 0.1
) -> AsyncGenerator[tuple[EventStream, LiveEvents]]:
    """A writer and a reading process on one server."""
    writer, reader = open_redis(url), open_redis(url)
    store = EventStore(pool)
    async with (
        writer,
        reader,
        LiveHub(reader, store, capacity=capacity, poll_s=poll_s).running() as hub,
    ):
        yield EventStream(writer, cap=20_000, ttl_s=60), LiveEvents(hub, store, heartbeat_s=0.2)


async def read_all(live: LiveEvents, key: UUID, after: int | None = None) -> list[Recorded]:
    async with live.reading(key, after) as items:
        return [item async for item in items if item is not None]


def kinds(items: Sequence[Recorded]) -> list[str]:
    return [item.event.kind for item in items]


def streamed(items: Sequence[Recorded]) -> str:
    return "".join(item.event.text for item in items if isinstance(item.event, TextDelta))


def stored(items: Sequence[Recorded]) -> str:
    return "".join(item.event.text for item in items if isinstance(item.event, TurnCompleted))


def check_whole(items: Sequence[Recorded]) -> None:
    """In order, each once, no durable event missing, ended."""
    places = [item.position for item in items]
    assert places == sorted(set(places))
    durable = [item.seq for item in items if not isinstance(item.event, TextDelta)]
    assert durable == list(range(1, len(durable) + 1))
    assert isinstance(items[-1].event, RunFinished)
