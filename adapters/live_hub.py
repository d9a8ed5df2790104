"""The live streams, the reading side: one loop per process follows every run that has a reader.

A connection per reader would cost a file descriptor and a wake-up each; here one XREAD names all
followed streams, plus one of its own by which it is woken when a stream is added. What it reads
goes to the readers' bounded queues. Nothing is lost when a queue overflows or Redis goes away:
the reader is told so and reads again from the place it had reached (adapters/live.py).
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID, uuid4

import structlog
from redis.asyncio import Redis

from adapters.postgres.events import EventStore
from adapters.stream import TROUBLE, decode, drop_idle, entry_id, stream_key
from domain.events import Recorded

_log = structlog.get_logger(__name__)

_BLOCK_MS = 1_000
_PAGE = 500  # entries per stream and read
_PAUSE_S = (0.1, 2.0)  # shortest and longest wait while Redis is away
_BEGINNING = "0-0"


class Subscription:
    """One reader's end: what arrived for it, and what it must look up itself."""

    def __init__(self, run_key: UUID, capacity: int) -> None:
        self.run_key = run_key
        self.seen = 0  # last durable seq that the reader has taken
        self.reread = False  # pieces were dropped: read the stream again
        self.refill = False  # PostgreSQL knows more than the stream
        self.gone = False  # there will be no more: the run does not exist, or the process ends
        self.behind_at: int | None = None  # `seen` when the last poll found it behind
        self._queue: deque[Recorded] = deque()
        self._capacity = capacity
        self._wake = asyncio.Event()

    def offer(self, items: Iterable[Recorded]) -> None:
        if not self.reread:
            self._queue.extend(items)
            if len(self._queue) > self._capacity:
                self._queue.clear()
                self.reread = True
        self._wake.set()

    def tell(self, *, reread: bool = False, refill: bool = False, gone: bool = False) -> None:
        self.reread |= reread
        self.refill |= refill
        self.gone |= gone
        self._wake.set()

    def take(self) -> list[Recorded]:
        """What has arrived since the last call."""
        items = list(self._queue)
        self._queue.clear()
        return items

    async def wait(self, timeout_s: float) -> bool:
        """Until there is something to do; False when the time ran out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        woken = self._wake.is_set()
        self._wake.clear()
        return woken


class LiveHub:
    """Follows streams for all readers of this process. Use inside `running()`.

    capacity: events a reader may lag behind before it must read again itself;
    poll_s: seconds between two looks at PostgreSQL for events whose publishing was lost.
    """

    def __init__(
        self, redis: Redis, store: EventStore, *, capacity: int = 1_000, poll_s: float = 2.0
    ) -> None:
        self._redis: Any = redis
        self._store = store
        self._capacity = capacity
        self._poll_s = poll_s
        self._readers: dict[str, set[Subscription]] = {}
        self._places: dict[str, str] = {}  # stream key → id after which the loop reads
        self._wake_key = f"hub:{uuid4()}:wake"
        self._wake_place = _BEGINNING
        self.connected = True
        self._stopping = False

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["LiveHub"]:
        tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._poll())]
        try:
            yield self
        finally:
            self._stopping = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def subscribe(self, run_key: UUID) -> Subscription:
        """From now on what the loop reads of this run is kept for this reader."""
        reader = Subscription(run_key, self._capacity)
        self._readers.setdefault(stream_key(run_key), set()).add(reader)
        return reader

    def unsubscribe(self, reader: Subscription) -> None:
        key = stream_key(reader.run_key)
        readers = self._readers.get(key, set())
        readers.discard(reader)
        if not readers:
            self._readers.pop(key, None)
            self._places.pop(key, None)

    def drain(self) -> None:
        """End all readers: the process is about to stop."""
        for reader in self._all():
            reader.tell(gone=True)

    async def backlog(self, run_key: UUID, after: int) -> list[Recorded]:
        """What the stream holds behind position `after` (-1: all). Raises what TROUBLE names."""
        key, items = stream_key(run_key), list[Recorded]()
        start = _BEGINNING if after < 0 else f"({entry_id(after)}"
        while page := await self._redis.xrange(key, min=start, max="+", count=_PAGE):
            items += _decoded(page)
            start = f"({page[-1][0].decode()}"
            if len(page) < _PAGE:
                break
        return items

    async def follow(self, reader: Subscription, after: int) -> None:
        """Have the loop read this run from `after` (-1: all) at the latest."""
        key = stream_key(reader.run_key)
        place = _BEGINNING if after < 0 else entry_id(after)
        if key not in self._readers or _order(self._places.get(key)) <= _order(place):
            return
        self._places[key] = place
        with suppress(*TROUBLE):
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.xadd(self._wake_key, {b"w": b""}, maxlen=1, approximate=False)
                pipe.expire(self._wake_key, 60)
                await pipe.execute()

    async def _follow(self) -> None:
        pause_s = _PAUSE_S[0]
        # Not only cancelled: the client may lose a cancellation that meets a broken connection.
        while not self._stopping:
            asked = {**self._places, self._wake_key: self._wake_place}
            try:
                read = await self._redis.xread(asked, count=_PAGE, block=_BLOCK_MS)
            except TROUBLE as error:
                self._lost(error)
                await drop_idle(self._redis)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _PAUSE_S[1])
                continue
            pause_s = _PAUSE_S[0]
            self._back()
            for raw_key, entries in read:
                self._deliver(raw_key.decode(), entries, asked)

    def _deliver(self, key: str, entries: Sequence[Any], asked: dict[str, str]) -> None:
        last = entries[-1][0].decode()
        if key == self._wake_key:
            self._wake_place = last
            return
        if self._places.get(key) == asked[key]:  # else a newcomer has moved it back meanwhile
            self._places[key] = last
        items = _decoded(entries)
        for reader in self._readers.get(key, ()):
            reader.offer(items)

    def _lost(self, error: BaseException) -> None:
        if self.connected:
            _log.warning("live_hub_lost_redis", error=repr(error))
        self.connected = False

    def _back(self) -> None:
        """Redis answers again, perhaps without what it had: every reader looks for itself."""
        if self.connected:
            return
        _log.info("live_hub_back")
        self.connected = True
        for reader in self._all():
            reader.tell(reread=True, refill=True)

    async def _poll(self) -> None:
        while not self._stopping:
            await asyncio.sleep(self._poll_s if self.connected else min(self._poll_s, 0.5))
            readers = self._all()
            if not readers:
                continue
            try:
                last = await self._store.last_seqs(list({reader.run_key for reader in readers}))
            except Exception as error:  # the next look may find the database again
                _log.warning("live_hub_poll_failed", error=repr(error))
                continue
            for reader in readers:
                self._compare(reader, last.get(reader.run_key))

    def _compare(self, reader: Subscription, last: int | None) -> None:
        """Behind at two looks in a row without moving: what is missing will not come by itself."""
        if last is None:
            reader.tell(gone=True)
        elif last <= reader.seen:
            reader.behind_at = None
        elif not self.connected or reader.behind_at == reader.seen:
            reader.tell(refill=True)
        else:
            reader.behind_at = reader.seen

    def _all(self) -> list[Subscription]:
        return [reader for readers in self._readers.values() for reader in readers]


def _decoded(entries: Iterable[tuple[bytes, dict[bytes, bytes]]]) -> list[Recorded]:
    items: list[Recorded] = []
    for entry, fields in entries:
        try:
            items.append(decode(entry, fields))
        except (ValueError, KeyError) as error:  # written by another version: PostgreSQL has it
            _log.warning("live_hub_unreadable_entry", entry=entry, error=repr(error))
    return items


def _order(place: str | None) -> tuple[float, int]:
    """Sorts places; a stream that is not followed is followed from infinity."""
    if place is None:
        return (float("inf"), 0)
    seq, _, offset = place.partition("-")
    return (int(seq), int(offset))
