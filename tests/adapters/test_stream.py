"""Writing the live stream, against a real server."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from redis.asyncio import Redis

from adapters.stream import EventStream, TextWriter, decode, open_redis, stream_key
from cli.stack.valkey import Valkey
from domain.events import Notice, Recorded, TextDelta, position, text_position


def notice(seq: int) -> Recorded:
    return Recorded(position(seq), 1_000, Notice("varve.note", {"seq": seq}))


async def entries(redis: Any, key: UUID) -> list[Recorded]:
    return [decode(entry, fields) for entry, fields in await redis.xrange(stream_key(key))]


async def test_what_is_written_is_read_back(redis_url: str) -> None:
    async with open_redis(redis_url) as redis:
        key, items = uuid4(), [notice(1), notice(2)]
        await EventStream(redis, cap=100, ttl_s=60).publish(key, items)
        assert await entries(redis, key) == items


async def test_a_late_attempt_is_refused_by_the_store(redis_url: str) -> None:
    async with open_redis(redis_url) as redis:
        key, stream = uuid4(), EventStream(redis, cap=100, ttl_s=60)
        await stream.publish(key, [notice(5)])
        late = Recorded(text_position(4, 3), 1_000, TextDelta("old", "abc", 3))
        await stream.publish(key, [late, notice(6)])
        assert [item.seq for item in await entries(redis, key)] == [5, 6]


async def test_every_write_sets_cap_and_expiry(redis_url: str) -> None:
    async with open_redis(redis_url) as redis:
        key, stream = uuid4(), EventStream(redis, cap=200, ttl_s=60)
        for seq in range(1, 1_001):
            await stream.publish(key, [notice(seq)])
        kept = await entries(redis, key)
        assert len(kept) <= 300  # trimmed by whole nodes of a hundred
        assert kept[-1].seq == 1_000
        assert 0 < await redis.ttl(stream_key(key)) <= 60


async def test_a_server_that_is_away_is_no_error_and_comes_back_by_itself(tmp_path: Path) -> None:
    server = Valkey(tmp_path / "data", tmp_path / "log")
    await server.start()
    async with open_redis(server.url) as redis:
        key, stream = uuid4(), EventStream(redis, cap=100, ttl_s=60)
        await stream.publish(key, [notice(1)])
        await server.stop()
        await stream.publish(key, [notice(2)])
        await server.start()
        seq = 3
        while not await redis.exists(stream_key(key)):
            await stream.publish(key, [notice(seq)])
            seq += 1
            await asyncio.sleep(0.05)
        assert [item.seq for item in await entries(redis, key)] == [seq - 1]
    await server.stop()


async def test_many_writers_that_fail_together_are_one_trouble(tmp_path: Path) -> None:
    """With a pool of connections that all died, the stream is back with the server."""
    server = Valkey(tmp_path / "data", tmp_path / "log")
    await server.start()
    async with open_redis(server.url) as redis, open_redis(server.url) as probe:
        stream = EventStream(redis, cap=100, ttl_s=60)
        await asyncio.gather(*(stream.publish(uuid4(), [notice(1)]) for _ in range(30)))
        await server.child.kill()
        await server.start()
        attempts, key = 0, uuid4()
        while not await probe.exists(stream_key(key)):
            attempts += 1
            await asyncio.gather(*(stream.publish(uuid4(), [notice(1)]) for _ in range(5)))
            await stream.publish(key, [notice(1)])
            await asyncio.sleep(0.05)
        assert attempts <= 40  # one pause of a quarter of a second, not a pause per connection
    await server.stop()


async def text_of(redis: Redis, key: UUID) -> list[TextDelta]:
    events = [item.event for item in await entries(redis, key)]
    return [event for event in events if isinstance(event, TextDelta)]


async def test_the_first_piece_is_written_at_once_the_rest_together(redis_url: str) -> None:
    async with open_redis(redis_url) as redis:
        key, stream = uuid4(), EventStream(redis, cap=100, ttl_s=60)
        writer = TextWriter(stream, key, 2, "msg", interval_ms=60_000)
        await writer.write("a")
        while not await redis.exists(stream_key(key)):
            await asyncio.sleep(0.01)
        for piece in ("b", "c", "d"):
            await writer.write(piece)
        await writer.close()
        assert await text_of(redis, key) == [TextDelta("msg", "a", 1), TextDelta("msg", "bcd", 4)]
        assert writer.end == 4


async def test_closing_a_writer_that_wrote_nothing_writes_nothing(redis_url: str) -> None:
    async with open_redis(redis_url) as redis:
        key, stream = uuid4(), EventStream(redis, cap=100, ttl_s=60)
        writer = TextWriter(stream, key, 2, "msg", interval_ms=30)
        await writer.close()
        await writer.close()
        assert await text_of(redis, key) == []
