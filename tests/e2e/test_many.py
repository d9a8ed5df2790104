"""Many at once: runs, readers, and requests for the same session or the same run."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from redis.asyncio import Redis

from domain.ids import run_key
from tests.e2e.client import Client, Reader, assert_all_agree
from tests.e2e.stack import Stack, until
from tests.fixtures_api import run_input

pytestmark = pytest.mark.anyio

JSON = {"accept": "application/json"}


async def test_fifty_runs_at_once_lose_no_event(client: Client) -> None:
    runs = [client.post(f"Write file notes.txt: layer {n}.") for n in range(50)]
    await asyncio.gather(*(run.done() for run in runs))
    for run in runs:
        assert run.connections == 1
        await assert_all_agree(run)
        types = Counter(frame["type"] for frame in run.frames)
        assert types["TOOL_CALL_RESULT"] == 1
        assert types["RUN_FINISHED"] == 1
    await asyncio.gather(*(_cut_everywhere(run) for run in runs))


async def _cut_everywhere(run: Reader) -> None:
    """Whatever event a reader left after, what it gets then is what it would have got."""
    whole = [(event.id, event.raw) for event in run.events]
    for place, (before, after) in enumerate(pairwise(run.events), start=1):
        assert before.id is not None
        assert after.id is not None
        rest = await run.client.rest(run, before.id)
        assert whole[:place] + [(event.id, event.raw) for event in rest] == whole


async def test_a_replay_from_the_start_is_the_stream_to_the_byte(client: Client) -> None:
    run = await client.post("Slowly. [[standin: tokens=20 delay_ms=20 flush]]").done()
    again = await client.follow(run).done()
    posted = await client.repeat(run).done()
    assert again.events == run.events
    assert posted.events == run.events


async def test_of_twenty_requests_for_one_session_one_runs(stack: Stack, client: Client) -> None:
    thread = f"thread-{uuid4().hex}"
    text = "One of us. [[standin: tokens=3 first_delay_ms=1500]]"
    bodies = [run_input(text, thread_id=thread) for _ in range(20)]
    responses = await asyncio.gather(
        *(client.http.post("/runs", json=body, headers=JSON) for body in bodies)
    )
    winners = [r for r in responses if r.status_code == 202]
    assert len(winners) == 1
    won = winners[0].json()["runId"]
    for refused in responses:
        if refused is winners[0]:
            continue
        assert refused.status_code == 409
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["type"] == "/problems/session-busy"
        assert refused.json()["activeRunId"] == won

    body = next(body for body in bodies if body["runId"] == won)
    await assert_all_agree(Reader(client, won, body).start())
    roles = [m["role"] for m in (await client.get(f"/sessions/{thread}/history"))["messages"]]
    assert roles == ["user", "assistant"]
    stack.tally.runs += 1


async def test_the_same_request_in_parallel_is_one_run(stack: Stack, client: Client) -> None:
    mark = uuid4().hex
    first = client.post(f"Once. [[standin: id={mark} tokens=20 delay_ms=20 flush]]")
    twins = [client.repeat(first) for _ in range(9)]
    await assert_all_agree(first, *twins)
    for twin in twins:
        assert twin.events == first.events
    assert len(await stack.upstream(mark)) == 1
    rows = await stack.rows("SELECT id FROM runs WHERE run_id = $1", first.run_id)
    assert [row["id"] for row in rows] == [run_key(await stack.owner(), first.run_id)]


async def test_the_same_run_id_with_another_body_is_refused(client: Client) -> None:
    first = client.post("Mine.")
    await first.done()
    assert first.body is not None
    other = {**first.body, "messages": [{"id": "x", "role": "user", "content": "Not mine."}]}
    response = await client.http.post("/runs", json=other, headers=JSON)
    assert response.status_code == 409
    assert response.json()["type"] == "/problems/run-conflict"
    assert len(await client.history(first)) == 2


@pytest.mark.parametrize("sessions", [1, 8])
async def test_bodies_racing_for_one_run_id_make_one_run(client: Client, sessions: int) -> None:
    run_id = f"run-{uuid4().hex}"
    bodies = [
        run_input(f"Body {n}.", run_id=run_id, thread_id=f"race-{n % sessions}-{run_id}")
        for n in range(8)
    ]
    assert await _statuses(client, bodies) == {202: 1, 409: 7}


async def test_requests_that_meet_the_end_of_a_run_are_told_yes_or_no(client: Client) -> None:
    """Acceptances and the end of a turn lock the same rows; none of them may give way for good."""
    for n in range(10):
        text = f"Short. [[standin: tokens=2 first_delay_ms={10 * n}]]"
        bodies = [run_input(text, thread_id=f"meet-{n}") for _ in range(20)]
        statuses = await _statuses(client, bodies)
        assert set(statuses) <= {202, 409}
        assert statuses[202] >= 1


async def _statuses(client: Client, bodies: Sequence[dict[str, Any]]) -> Counter[int]:
    """Of all these posted at once."""
    responses: list[httpx2.Response] = await asyncio.gather(
        *(client.http.post("/runs", json=body, headers=JSON) for body in bodies)
    )
    statuses = Counter(response.status_code for response in responses)
    client.tally.runs += statuses[202]
    return statuses


async def test_three_hundred_readers_of_one_run_all_read_the_same(
    stack: Stack, client: Client
) -> None:
    run = client.post("For all. [[standin: tokens=60 delay_ms=100 flush]]")
    await run.has(1)
    readers = [client.follow(run) for _ in range(300)]
    leavers = readers[::10]
    await asyncio.gather(*(reader.has(8) for reader in readers))
    await asyncio.gather(*(leaver.leave() for leaver in leavers))
    stayed = [reader for reader in readers if reader not in leavers]
    await assert_all_agree(run, *stayed)
    for reader in stayed:
        assert reader.connections == 1
        assert reader.events == run.events


async def test_a_client_that_goes_away_cancels_nothing(client: Client) -> None:
    run = client.post("Go on. [[standin: tokens=30 delay_ms=30 flush]]")
    await run.says(3)
    await run.leave()

    async def completed() -> bool:
        return (await client.run(run))["status"] == "completed"

    await until(completed, "the run is completed")
    run.start()
    await assert_all_agree(run)


async def test_every_stream_has_a_cap_and_an_end(stack: Stack, client: Client) -> None:
    runs = [client.post(f"Layer {n}. [[standin: tokens=5]]") for n in range(5)]
    await asyncio.gather(*(run.done() for run in runs))
    async with Redis.from_url(stack.settings.redis_url) as redis:
        store: Any = redis
        keys = [key async for key in store.scan_iter()]
        assert len(keys) >= 5
        for key in keys:
            assert 0 < await store.ttl(key) <= stack.settings.stream_ttl_s
            assert await store.xlen(key) <= stack.settings.stream_cap
