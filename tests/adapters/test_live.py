"""Reading runs live, from a real Valkey and a real PostgreSQL, whichever of them fails."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from uuid import uuid4

import pytest

from adapters.live import LiveEvents
from adapters.postgres.pool import Pool
from adapters.stream import EventStream, open_redis, stream_key
from cli.stack.valkey import Valkey
from domain.events import Recorded, TextDelta
from tests.adapters.live_feed import (
    Feed,
    check_whole,
    kinds,
    read_all,
    reading,
    stored,
    streamed,
)

WHOLE = ["run_started", "turn_started", "text_delta", "text_delta", "turn_completed"]


@pytest.fixture
async def both(redis_url: str, pool: Pool) -> AsyncGenerator[tuple[EventStream, LiveEvents]]:
    async with reading(redis_url, pool) as both:
        yield both


@pytest.fixture
async def own_valkey(tmp_path: Path) -> AsyncGenerator[Valkey]:
    """A server that a test may kill."""
    server = Valkey(tmp_path / "valkey", tmp_path / "valkey.log")
    await server.start()
    yield server
    await server.stop()


async def test_a_reader_sees_a_run_as_it_happens(
    both: tuple[EventStream, LiveEvents], pool: Pool
) -> None:
    stream, live = both
    feed = await Feed.start(pool, stream)
    async with live.reading(feed.key) as items:
        assert (await _next(items)).event.kind == "run_started"
        opened = await feed.open()
        assert (await _next(items)).event.kind == "turn_started"
        await feed.say(opened, "he", "llo")
        assert streamed([await _next(items), await _next(items)]) == "hello"
        await feed.complete(opened, "hello")
        await feed.finish()
        assert kinds([item async for item in items if item]) == ["turn_completed", "run_finished"]


async def test_a_late_joiner_gets_everything(
    both: tuple[EventStream, LiveEvents], pool: Pool
) -> None:
    stream, live = both
    feed = await Feed.start(pool, stream)
    await feed.turn_of("he", "llo")
    reader = asyncio.create_task(read_all(live, feed.key))
    await feed.turn_of("wor", "ld")
    await feed.finish()
    items = await reader
    check_whole(items)
    assert kinds(items) == [*WHOLE, *WHOLE[1:], "run_finished"]
    assert kinds(await read_all(live, feed.key)) == kinds(items)


async def test_a_reader_that_comes_back_gets_all_events_and_the_text_behind_its_cursor(
    both: tuple[EventStream, LiveEvents], pool: Pool
) -> None:
    stream, live = both
    feed = await Feed.start(pool, stream)
    await feed.turn_of("he", "llo")
    await feed.finish()
    whole = await read_all(live, feed.key)
    first_delta = whole[2]
    again = await read_all(live, feed.key, after=first_delta.position)
    assert again == [item for item in whole if item is not first_delta]


async def test_a_lost_publication_is_fetched_when_the_next_event_shows_the_gap(
    both: tuple[EventStream, LiveEvents], pool: Pool
) -> None:
    stream, live = both
    feed = await Feed.start(pool, stream)
    reader = asyncio.create_task(read_all(live, feed.key))
    opened = await feed.open(publish=False)
    await feed.say(opened, "he", "llo")
    await feed.complete(opened, "hello", publish=False)
    await feed.finish()
    items = await reader
    check_whole(items)
    assert stored(items) == "hello"


async def test_a_lost_last_word_does_not_hang_a_reader(
    both: tuple[EventStream, LiveEvents], pool: Pool
) -> None:
    stream, live = both
    feed = await Feed.start(pool, stream)
    reader = asyncio.create_task(read_all(live, feed.key))
    await feed.turn_of("hello")
    await feed.finish(publish=False)
    check_whole(await reader)


async def test_an_expired_stream_is_read_from_the_database(
    both: tuple[EventStream, LiveEvents], pool: Pool, redis_url: str
) -> None:
    stream, live = both
    feed = await Feed.start(pool, stream)
    await feed.turn_of("he", "llo")
    await feed.finish()
    async with open_redis(redis_url) as redis:
        await redis.delete(stream_key(feed.key))
    items = await read_all(live, feed.key)
    check_whole(items)
    assert (streamed(items), stored(items)) == ("", "hello")


async def test_a_trimmed_stream_is_completed(
    both: tuple[EventStream, LiveEvents], pool: Pool, redis_url: str
) -> None:
    stream, live = both
    feed = await Feed.start(pool, stream)
    await feed.turn_of(*(str(n % 10) for n in range(50)))
    await feed.turn_of("end")
    async with open_redis(redis_url) as redis:
        await redis.xtrim(stream_key(feed.key), maxlen=10, approximate=False)
    await feed.finish()
    items = await read_all(live, feed.key)
    check_whole(items)
    assert stored(items) == "0123456789" * 5 + "end"


async def test_a_reader_too_slow_for_its_queue_loses_nothing(redis_url: str, pool: Pool) -> None:
    async with reading(redis_url, pool, capacity=5) as (stream, live):
        feed = await Feed.start(pool, stream)
        items: list[Recorded] = []
        async with live.reading(feed.key) as source:
            items.append(await _next(source))
            await feed.turn_of(*"a text of many more pieces than the queue has room for")
            await feed.finish()
            await asyncio.sleep(0.3)  # the hub fills the queue, and more
            items += [item async for item in source if item]
        check_whole(items)
        assert streamed(items) == stored(items)


async def test_a_quiet_run_has_heartbeats(both: tuple[EventStream, LiveEvents], pool: Pool) -> None:
    stream, live = both
    feed = await Feed.start(pool, stream)
    async with live.reading(feed.key) as items:
        assert (await _next(items)).event.kind == "run_started"
        assert await anext(items) is None


async def test_readers_of_a_run_that_is_withdrawn_are_let_go(
    both: tuple[EventStream, LiveEvents], pool: Pool
) -> None:
    stream, live = both
    feed = await Feed.start(pool, stream)
    reader = asyncio.create_task(read_all(live, feed.key))
    await pool.execute("DELETE FROM run_events WHERE run_id = $1", feed.key)
    await pool.execute("DELETE FROM messages WHERE run_id = $1", feed.key)
    await pool.execute("DELETE FROM runs WHERE id = $1", feed.key)
    assert len(await reader) <= 1


async def test_fifty_runs_at_once_each_read_twice(
    both: tuple[EventStream, LiveEvents], pool: Pool
) -> None:
    stream, live = both
    feeds = [await Feed.start(pool, stream) for _ in range(50)]
    readers = [asyncio.create_task(read_all(live, f.key)) for f in feeds for _ in range(2)]

    async def work(feed: Feed) -> None:
        await feed.turn_of("one ", "two ", "three")
        await feed.turn_of("four")
        await feed.finish()

    await asyncio.gather(*map(work, feeds))
    for items in await asyncio.gather(*readers):
        check_whole(items)
        assert streamed(items) == stored(items) == "one two threefour"


async def test_killing_valkey_in_the_middle_of_a_turn_loses_no_text_that_was_stored(
    own_valkey: Valkey, pool: Pool
) -> None:
    async with reading(own_valkey.url, pool) as (stream, live):
        feed = await Feed.start(pool, stream)
        reader = asyncio.create_task(read_all(live, feed.key))
        opened = await feed.open()
        await feed.say(opened, "be", "fore ")
        await own_valkey.child.kill()
        await feed.say(opened, "be", "fore ", "during ")
        await feed.complete(opened, "before during ")
        await own_valkey.start()
        await _until_writable(stream, own_valkey)
        await feed.turn_of("after")
        await feed.finish()
        items = await reader
        check_whole(items)
        assert stored(items) == "before during after"


async def test_a_run_is_read_to_its_end_while_redis_stays_away(
    own_valkey: Valkey, pool: Pool
) -> None:
    async with reading(own_valkey.url, pool) as (stream, live):
        await own_valkey.stop()
        feed = await Feed.start(pool, stream)
        reader = asyncio.create_task(read_all(live, feed.key))
        await feed.turn_of("hel", "lo")
        await feed.finish()
        items = await reader
        check_whole(items)
        assert not [item for item in items if isinstance(item.event, TextDelta)]
        assert stored(items) == "hello"


async def _next(items: AsyncGenerator[Recorded | None]) -> Recorded:
    while True:
        if (item := await anext(items)) is not None:
            return item


async def _until_writable(stream: EventStream, server: Valkey) -> None:
    """The writer leaves a server that was away alone for a moment."""
    probe = Recorded(10_000_000, 0, TextDelta("probe", "x", 1))
    async with open_redis(server.url) as redis:
        key = uuid4()
        while not await redis.exists(stream_key(key)):
            await stream.publish(key, [probe])
            await asyncio.sleep(0.05)
