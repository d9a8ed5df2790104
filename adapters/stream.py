"""The live stream of a run, the writing side: what is being said right now, in Redis.

One stream per run, `run:{run_key}:events`. Entry ids are `{seq}-{offset}` (domain/events.py), given
by us and not by the clock, so the store itself refuses what a late attempt still writes. Nothing
here is the truth: a write that fails is logged and forgotten, and readers fill in from PostgreSQL.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from adapters import event_codec
from domain.events import Recorded, TextDelta, position, split, text_position

_log = structlog.get_logger(__name__)

FIELD = b"e"
TROUBLE = (RedisError, OSError, asyncio.TimeoutError)
"""What a Redis that is down, hung or full makes the client raise."""

_PAUSE_S = (0.25, 5.0)  # shortest and longest time without an attempt after trouble
_LOG_EVERY_S = 10.0


def open_redis(url: str) -> Redis:
    """A client that fails fast and never retries; connections come up on demand."""
    return Redis.from_url(
        url,
        socket_connect_timeout=1.0,
        socket_timeout=5.0,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
        max_connections=256,
    )


async def drop_idle(redis: Redis) -> None:
    """After trouble: pooled connections from before it are dead, and each would fail once more."""
    with suppress(*TROUBLE):
        await redis.connection_pool.disconnect(inuse_connections=False)


def stream_key(run_key: UUID) -> str:
    return f"run:{run_key}:events"


def entry_id(position: int) -> str:
    seq, offset = split(position)
    return f"{seq}-{offset}"


class EventStream:
    """Writes events to the live streams. One per process.

    cap: most entries kept per run (trimmed by whole nodes, so a few more stay);
    ttl_s: seconds a stream is kept after its last write.
    """

    def __init__(self, redis: Redis, cap: int, ttl_s: int) -> None:
        self._redis: Any = redis
        self._cap = cap
        self._ttl_s = ttl_s
        self._pause_s = 0.0
        self._closed_until = 0.0  # monotonic; no attempt is made before
        self._log_after = 0.0

    async def publish(self, run_key: UUID, recorded: Sequence[Recorded]) -> None:
        """Append these events in one round trip, cap and expiry set with them. Raises nothing.

        After trouble the next attempts are skipped for a moment, so that a model stream does not
        wait for a dead server again and again.
        """
        if not recorded or time.monotonic() < self._closed_until:
            return
        try:
            # Shielded: a cancellation must reach the caller, not get lost in a broken connection.
            refused = await asyncio.shield(self._append(stream_key(run_key), recorded))
        except TROUBLE as error:
            await self._trouble(error)
            return
        self._pause_s = 0.0
        if refused:
            _log.debug("stream_refused_late_events", run_key=str(run_key), count=refused)

    async def forget(self, run_key: UUID) -> None:
        """Remove the stream of a run that was withdrawn. Never raises."""
        try:
            await self._redis.delete(stream_key(run_key))
        except TROUBLE as error:
            await self._trouble(error)

    async def _append(self, key: str, recorded: Sequence[Recorded]) -> int:
        async with self._redis.pipeline(transaction=True) as pipe:
            for item in recorded:
                pipe.xadd(
                    key,
                    {FIELD: encode(item)},
                    id=entry_id(item.position),
                    maxlen=self._cap,
                    approximate=True,
                )
            pipe.expire(key, self._ttl_s)
            results: list[object] = await pipe.execute(raise_on_error=False)
        errors = [result for result in results if isinstance(result, Exception)]
        for error in errors:
            if not _is_late(error):
                raise error
        return len(errors)

    async def _trouble(self, error: BaseException) -> None:
        now = time.monotonic()
        if now >= self._closed_until:  # else one of many that failed together
            shortest, longest = _PAUSE_S
            self._pause_s = min(max(self._pause_s * 2, shortest), longest)
            self._closed_until = now + self._pause_s
        if now >= self._log_after:
            self._log_after = now + _LOG_EVERY_S
            _log.warning("stream_unreachable", error=repr(error), pause_s=self._pause_s)
        await drop_idle(self._redis)


class TextWriter:
    """Streams the text of one model call: the first piece at once, then one write per interval.

    turn_seq: seq of the TurnStarted this text belongs to. `end`: characters written so far; the
    text given here must be what is stored in the message in the end, character by character.
    """

    def __init__(
        self,
        stream: EventStream,
        run_key: UUID,
        turn_seq: int,
        message_id: str,
        interval_ms: int,
    ) -> None:
        self._stream = stream
        self._run_key = run_key
        self._turn_seq = turn_seq
        self._message_id = message_id
        self._interval_s = interval_ms / 1000
        self._pieces: list[str] = []
        self._pump: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self.end = 0

    async def write(self, text: str) -> None:
        """Take a piece of text. Returns at once; the writing is done beside the caller."""
        if not text:
            return
        self._pieces.append(text)
        self.end += len(text)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Write what is left. Harmless when called twice."""
        self._closing.set()
        if self._pump is not None:
            await self._pump
        await self._flush()

    async def _run(self) -> None:
        while self._pieces:
            await self._flush()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), self._interval_s)

    async def _flush(self) -> None:
        if not self._pieces:
            return
        text, end = "".join(self._pieces), self.end
        self._pieces.clear()
        delta = TextDelta(self._message_id, text, end)
        item = Recorded(text_position(self._turn_seq, end), _now_ms(), delta)
        await self._stream.publish(self._run_key, [item])


def encode(item: Recorded) -> bytes:
    """The value of an entry: milliseconds, a space, the event as JSON. The id has the position."""
    return b"%d %b" % (item.at_ms, event_codec.dump(item.event))


def decode(entry: bytes, fields: dict[bytes, bytes]) -> Recorded:
    """An entry as read. Raises ValueError for one that this version can't read."""
    seq, offset = entry.split(b"-")
    at_ms, _, data = fields[FIELD].partition(b" ")
    return Recorded(position(int(seq), int(offset)), int(at_ms), event_codec.load(data))


def _is_late(error: Exception) -> bool:
    return isinstance(error, ResponseError) and "equal or smaller" in str(error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
