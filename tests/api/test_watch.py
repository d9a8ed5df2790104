"""GET /runs/{id}/events and attaching: the same bytes however a reader comes to them."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from adapters.postgres.pool import Pool
from adapters.postgres.runs import RunStore
from adapters.stream import EventStream, open_redis, stream_key
from domain.events import RunStatus
from domain.ids import run_key
from domain.runs import Ending, Run
from tests.adapters.live_feed import Feed
from tests.api.checks import check_stream
from tests.fixtures_api import Api, Person, accepted, parse, run_input
from tests.people import begin


@pytest.fixture
async def alice(api: Api) -> Person:
    return await api.person("alice")


@pytest.fixture
async def stream(redis_url: str) -> AsyncGenerator[EventStream]:
    async with open_redis(redis_url) as redis:
        yield EventStream(redis, cap=1_000, ttl_s=60)


async def ended(alice: Person, pool: Pool, stream: EventStream) -> Run:
    """A run of two turns, as a worker would have written it."""
    await accepted(alice, run_id="r1", message_id="m1")
    key = run_key(alice.user.id, "r1")
    await begin(pool, key)
    feed = Feed(pool, stream, await RunStore(pool).get_by_key(key))
    await feed.turn_of("Hel", "lo ", "世界")
    await feed.turn_of("bye")
    await feed.finish()
    return feed.run


async def body_of(person: Person, **headers: str) -> str:
    response = await person.http.get("/runs/r1/events", headers=headers)
    assert response.status_code == 200
    return response.text


async def test_a_stream_is_what_ag_ui_clients_can_take(
    alice: Person, pool: Pool, stream: EventStream
) -> None:
    await ended(alice, pool, stream)
    response = await alice.http.get("/runs/r1/events")
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.text.startswith(": ")
    frames = check_stream(response.text)
    assert [f["type"] for f in frames[:3]] == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]
    assert "".join(f["delta"] for f in frames if "delta" in f) == "Hello 世界bye"


async def test_posting_the_same_again_replays_the_run(
    alice: Person, pool: Pool, stream: EventStream
) -> None:
    await ended(alice, pool, stream)
    again = await alice.http.post("/runs", json=run_input(run_id="r1", message_id="m1"))
    assert again.text == await body_of(alice)


async def test_every_cursor_gives_exactly_the_rest(
    alice: Person, pool: Pool, stream: EventStream
) -> None:
    await ended(alice, pool, stream)
    whole = parse(await body_of(alice))
    for place, sent in enumerate(whole[:-1]):
        assert parse(await body_of(alice, **{"last-event-id": str(sent.id)})) == whole[place + 1 :]
    last = str(whole[-1].id)
    done = await alice.http.get("/runs/r1/events", params={"last_event_id": last})
    assert done.status_code == 204


async def test_an_expired_stream_still_answers(
    alice: Person, pool: Pool, stream: EventStream, redis_url: str
) -> None:
    run = await ended(alice, pool, stream)
    before = check_stream(await body_of(alice))
    async with open_redis(redis_url) as redis:
        await redis.delete(stream_key(run.key))
    after = check_stream(await body_of(alice))
    assert text(after) == text(before) == "Hello 世界bye"
    assert after[-1] == before[-1]


@pytest.mark.parametrize(
    "cursor", ["x", "-1", "1.5", "0", "9" * 30, "٣", "10000000 ", "99990000000"]
)
async def test_a_cursor_that_names_no_event_is_400(
    alice: Person, pool: Pool, stream: EventStream, cursor: str
) -> None:
    await ended(alice, pool, stream)
    response = await alice.http.get("/runs/r1/events", params={"last_event_id": cursor})
    assert response.status_code == 400
    assert response.json()["type"] == "/problems/bad-cursor"


async def test_a_reader_that_leaves_cancels_nothing(
    alice: Person, pool: Pool, stream: EventStream
) -> None:
    async with alice.http.stream("POST", "/runs", json=run_input(run_id="r1")) as response:
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                break
    assert (await alice.http.get("/runs/r1")).json()["status"] == "accepted"


async def test_an_interrupted_run_speaks_the_version_it_was_started_with(
    alice: Person, pool: Pool
) -> None:
    for run_id, version in (("new", "1.0"), ("old", None)):
        await accepted(alice, run_id=run_id, thread_id=run_id, protocolVersion=version)
        key = run_key(alice.user.id, run_id)
        await pool.execute("UPDATE runs SET status = 'running' WHERE id = $1", key)
        await RunStore(pool).finish(key, Ending(RunStatus.INTERRUPTED, "cancelled", "Stop."))
    new = parse((await alice.http.get("/runs/new/events")).text)[-1].frame
    old = parse((await alice.http.get("/runs/old/events")).text)[-1].frame
    assert (new["type"], new["outcome"]) == ("RUN_FINISHED", {"type": "cancelled"})
    assert (old["type"], old["code"]) == ("RUN_ERROR", "cancelled")
    url = "/runs/old/events?protocol_version=1.0"
    assert parse((await alice.http.get(url)).text)[-1].frame["outcome"] == {"type": "cancelled"}


def text(frames: list[dict[str, Any]]) -> str:
    return "".join(frame["delta"] for frame in frames if frame["type"] == "TEXT_MESSAGE_CONTENT")
