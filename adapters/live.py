"""Read a run as it happens: what Redis has, completed from PostgreSQL, once and in order.

Durable events are numbered densely, so a missing one is noticed and fetched. Text that was never
stored as events can't be fetched; its message can, when the turn is complete (domain/agui.py).
"""

import asyncio
import heapq
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from uuid import UUID

import structlog

from adapters.live_hub import LiveHub, Subscription
from adapters.postgres.events import EventStore
from adapters.stream import TROUBLE
from domain.events import Recorded, RunFinished, TextDelta

_log = structlog.get_logger(__name__)

HEARTBEAT_S = 15.0
_RETRY_S = 0.5  # between two attempts to reach PostgreSQL


class LiveEvents:
    """Readers of runs, on one hub."""

    def __init__(self, hub: LiveHub, store: EventStore, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._hub = hub
        self._store = store
        self._heartbeat_s = heartbeat_s

    @asynccontextmanager
    async def reading(
        self, run_key: UUID, after: int | None = None, *, ended: bool = False
    ) -> AsyncGenerator[AsyncGenerator[Recorded | None]]:
        """Every durable event of the run from the first, and the text behind `after` (all if None).

        Positions strictly increase; None says that a heartbeat is due. Ends after RunFinished, or
        when there is no such run. Enter it before the run is started. ended: the run is known to
        be over, so its end is looked up rather than waited for.
        """
        reader = self._hub.subscribe(run_key)
        try:
            async with aclosing(self._read(_Merge(reader, after, self._store), ended)) as items:
                yield items
        finally:
            self._hub.unsubscribe(reader)

    async def _read(self, merge: "_Merge", ended: bool) -> AsyncGenerator[Recorded | None]:
        reader = merge.reader
        items = await self._beginning(merge, ended)
        while True:
            for item in await merge.next(items):
                yield item
                if isinstance(item.event, RunFinished):
                    return
            if reader.gone:
                return
            if not await reader.wait(self._heartbeat_s):
                yield None
            items = await self._missed(merge) + reader.take()

    async def _beginning(self, merge: "_Merge", ended: bool) -> list[Recorded]:
        """What there is already, and have the rest followed."""
        durable = [] if merge.after < 0 else await merge.load()
        items = await self._stream(merge, merge.after)
        last = items[-1].position if items else merge.after
        await self._hub.follow(merge.reader, last)
        short = ended and not (items and isinstance(items[-1].event, RunFinished))
        if not durable and (not items or items[0].seq > 1 or short):
            durable = await merge.load()
        return [*durable, *items]

    async def _missed(self, merge: "_Merge") -> list[Recorded]:
        """What the queue could not keep and what the stream never had."""
        reader, items = merge.reader, list[Recorded]()
        if reader.reread:
            reader.reread = False
            items += await self._stream(merge, max(merge.last, merge.after))
        if reader.refill:
            reader.refill = False
            items += await merge.load()
        return items

    async def _stream(self, merge: "_Merge", after: int) -> list[Recorded]:
        """What Redis has. A second attempt, since a connection from before its restart is dead."""
        for _ in range(2):
            if not self._hub.connected:
                break
            try:
                return await self._hub.backlog(merge.reader.run_key, after)
            except TROUBLE as error:
                _log.warning("live_backlog_unreachable", error=repr(error))
        return []


class _Merge:
    """Puts what comes from both sides into the one order, once."""

    def __init__(self, reader: Subscription, after: int | None, store: EventStore) -> None:
        self.reader = reader
        self.after = -1 if after is None else after
        self.last = -1  # position of the last event handed out
        self._store = store

    async def next(self, items: Sequence[Recorded]) -> list[Recorded]:
        """Those of `items` that are new, in order, what is missing between them fetched."""
        out: list[Recorded] = []
        waiting = sorted(items, key=_position)
        while waiting:
            item = waiting.pop(0)
            if item.position <= self.last:
                continue
            known = self.reader.seen + (not isinstance(item.event, TextDelta))
            if item.seq > known:
                missing = [r for r in await self.load() if r.seq <= item.seq]
                waiting = list(heapq.merge(missing, [item, *waiting], key=_position))
                first = missing[0].seq - 1 if missing else item.seq
                # Not even the database has what comes before: it was deleted, don't wait for it.
                self.reader.seen = max(self.reader.seen, first)
                continue
            out += self._accept(item)
        return out

    def _accept(self, item: Recorded) -> list[Recorded]:
        self.last = item.position
        if isinstance(item.event, TextDelta):
            return [item] if item.position > self.after else []
        self.reader.seen = item.seq
        return [item]

    async def load(self) -> list[Recorded]:
        """Durable events that were not handed out yet; waits for a database that is away."""
        while True:
            try:
                return await self._store.load(self.reader.run_key, self.reader.seen)
            except Exception as error:
                _log.warning("live_load_failed", error=repr(error))
                await asyncio.sleep(_RETRY_S)


def _position(item: Recorded) -> int:
    return item.position
