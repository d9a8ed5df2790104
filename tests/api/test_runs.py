"""Starting runs, watching them, listing them, stopping them."""

from typing import Any

from adapters.postgres.pool import Pool
from adapters.settings import Settings
from domain.events import RunStatus
from tests.api.relay import Relay
from tests.fixtures_api import Api, Person, accepted, parse, run_input, serving_api
from tests.people import accept

JSON = {"accept": "application/json"}
LONG = "[[standin: tokens=4000 delay_ms=20]]"


async def test_a_run_is_streamed_from_start_to_end_and_its_state_is_kept(served: Api) -> None:
    ann = await served.person("ann")
    body = run_input("What is 2+3?", thread_id="t", run_id="r", message_id="m")
    response = await ann.http.post("/runs", json=body)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.text.startswith(": ")  # something at once, before there is an event
    sent = parse(response.text)
    frames = [one.frame for one in sent]
    assert [frame["type"] for frame in frames[:4]] == [
        *("RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "STEP_STARTED"),
    ]
    assert (frames[0]["threadId"], frames[0]["runId"]) == ("t", "r")
    assert frames[2]["messages"] == [{"id": "m", "role": "user", "content": "What is 2+3?"}]
    assert frames[-1]["type"] == "RUN_FINISHED"
    ids = [one.id for one in sent if one.id is not None]
    assert len(ids) == len(sent)
    assert ids == sorted(set(ids))
    run = (await ann.http.get("/runs/r")).json()
    assert (run["status"], run["profile"], run["executor"]) == (
        *("completed", "chat_default", "worker"),
    )
    assert run["lastEventId"] == ids[-1]
    assert run["usage"]["outputTokens"] > 0
    assert run["turns"] == 1
    assert run["errorCode"] is None
    [listed] = (await ann.http.get("/runs")).json()["items"]
    assert listed == run


async def test_asked_for_json_the_run_is_accepted_and_goes_on_by_itself(served: Api) -> None:
    ann = await served.person("ann")
    run = await accepted(ann, run_id="r", thread_id="t")
    assert (run["runId"], run["threadId"], run["origin"]) == ("r", "t", "chat")
    stream = parse((await ann.http.get("/runs/r/events")).text)
    assert stream[-1].frame["type"] == "RUN_FINISHED"


async def test_the_same_request_again_attaches_and_another_is_a_conflict(served: Api) -> None:
    ann = await served.person("ann")
    body = run_input("hello", run_id="r", message_id="m")
    first = parse((await ann.http.post("/runs", json=body)).text)
    second = parse((await ann.http.post("/runs", json=body)).text)
    assert second == first
    other = {**body, "messages": [{"id": "m", "role": "user", "content": "something else"}]}
    moved = {**body, "threadId": "elsewhere"}
    bounded: dict[str, Any] = {**body, "forwardedProps": {"varve": {"tools": list[str]()}}}
    for changed in (other, moved, bounded):
        response = await ann.http.post("/runs", json=changed)
        assert (response.status_code, response.json()["type"]) == (409, "/problems/run-conflict")
        assert response.headers["content-type"] == "application/problem+json"
    assert [s["threadId"] for s in (await ann.http.get("/sessions")).json()["items"]] == ["thread"]


async def test_a_busy_session_names_the_run_that_is_at_work(alice: Person) -> None:
    await accepted(alice, run_id="first", thread_id="t")
    response = await alice.http.post("/runs", json=run_input(run_id="second", thread_id="t"))
    assert (response.status_code, response.json()["type"]) == (409, "/problems/session-busy")
    assert response.json()["activeRunId"] == "first"
    assert (await alice.http.get("/runs/second")).status_code == 404
    await accepted(alice, run_id="third", thread_id="another")


async def test_a_message_that_the_session_has_starts_no_second_run(served: Api) -> None:
    ann = await served.person("ann")
    body = run_input(run_id="r1", thread_id="t", message_id="m")
    await ann.http.post("/runs", json=body)
    response = await ann.http.post("/runs", json={**body, "runId": "r2"})
    assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "messages")


async def test_runs_are_listed_by_what_they_are_newest_first_and_in_pages(
    alice: Person, pool: Pool
) -> None:
    for place in range(5):
        await accepted(alice, run_id=f"r{place}", thread_id=f"t{place}")
    await pool.execute(
        "UPDATE runs SET status = 'failed', executor = 'memory', profile_name = 'special', "
        "origin = 'automation', finished_at = now(), created_at = '2020-02-02T00:00:00Z' "
        "WHERE run_id = 'r1'"
    )
    everything = ["r4", "r3", "r2", "r0", "r1"]
    for query, expected in {
        "": everything,
        "status=failed": ["r1"],
        "status=accepted": ["r4", "r3", "r2", "r0"],
        "status=completed": [],
        "executor=memory": ["r1"],
        "profile=special": ["r1"],
        "origin=automation": ["r1"],
        "origin=chat": ["r4", "r3", "r2", "r0"],
        "thread_id=t3": ["r3"],
        "since=2021-01-01T00:00:00Z": ["r4", "r3", "r2", "r0"],
        "until=2021-01-01T00:00:00%2B01:00": ["r1"],
        "status=failed&origin=chat": [],
    }.items():
        page = (await alice.http.get(f"/runs?{query}")).json()
        assert [run["runId"] for run in page["items"]] == expected, query
        assert page["nextCursor"] is None
    seen: list[str] = []
    params = {"limit": "2"}
    while True:
        page = (await alice.http.get("/runs", params=params)).json()
        seen += [run["runId"] for run in page["items"]]
        if page["nextCursor"] is None:
            break
        params["cursor"] = page["nextCursor"]
    assert seen == everything


async def test_an_interrupted_run_ends_as_such_for_either_generation(served: Api) -> None:
    ann = await served.person("ann")
    await accepted(ann, text=LONG, run_id="r", thread_id="t")
    response = await ann.http.post("/runs/r/interrupt", json={"reason": "enough\x00"})
    assert response.status_code == 202
    assert response.json()["interrupted"] is True
    older = parse((await ann.http.get("/runs/r/events")).text)[-1].frame
    newer = parse((await ann.http.get("/runs/r/events?protocol_version=1.0")).text)[-1].frame
    assert (older["type"], older["code"]) == ("RUN_ERROR", "cancelled")
    assert (newer["type"], newer["outcome"]) == ("RUN_FINISHED", {"type": "cancelled"})
    run = (await ann.http.get("/runs/r")).json()
    assert run["status"] == RunStatus.INTERRUPTED
    again = await ann.http.post("/runs/r/interrupt")
    assert again.status_code == 202
    assert again.json()["interrupted"] is False
    assert again.json()["status"] == "interrupted"
    assert "nothing was done" in again.json()["detail"]
    assert (await ann.http.get("/runs/r")).json() == run
    rows = (await ann.http.get("/audit?run_id=r&kind=run_interrupt_requested")).json()["items"]
    assert [row["detail"]["reason"] for row in rows] == ["enough\ufffd"]


async def test_a_run_that_no_worker_has_seen_can_be_interrupted(alice: Person) -> None:
    await accepted(alice, run_id="r", thread_id="t")
    assert (await alice.http.post("/runs/r/interrupt")).json()["interrupted"] is True
    early = await alice.http.post("/runs/nobody/interrupt")
    assert (early.status_code, early.json()["status"]) == (202, None)


async def test_a_run_whose_workflow_was_never_started_can_be_interrupted(
    api: Api, alice: Person, pool: Pool
) -> None:
    run = (await accept(pool, alice.user.id, thread_id="t")).run
    answer = (await alice.http.post(f"/runs/{run.run_id}/interrupt", json={})).json()
    assert (answer["interrupted"], answer["status"]) == (True, "interrupted")
    stream = parse((await alice.http.get(f"/runs/{run.run_id}/events")).text)
    assert stream[-1].frame["code"] == "cancelled"
    await accepted(alice, thread_id="t")  # the session is free


async def test_a_reason_that_is_no_text_or_a_novel_is_refused(alice: Person) -> None:
    await accepted(alice, run_id="r")
    for reason in (5, ["x"], "x" * 1_001):
        response = await alice.http.post("/runs/r/interrupt", json={"reason": reason})
        assert (response.status_code, response.json()["errors"][0]["field"]) == (422, "reason")


async def test_with_the_engine_away_nothing_is_half_done(
    api: Api, pool: Pool, relay: Relay
) -> None:
    config = _through(relay, api.settings)
    async with serving_api(config, pool) as remote:
        ann = await remote.person("ann")
        await relay.cut()
        body = run_input("hello", run_id="r", thread_id="t")
        response = await ann.http.post("/runs", json=body)
        assert (response.status_code, response.json()["type"]) == (503, "/problems/unavailable")
        assert int(response.headers["retry-after"]) > 0
        assert (await ann.http.get("/runs/r")).status_code == 404
        await relay.mend()
        again = await ann.http.post("/runs", json=body, headers=JSON)
        assert again.status_code == 202, again.text


def _through(relay: Relay, settings: Settings) -> Settings:
    address = relay.url(settings.temporal_address)
    return settings.model_copy(update={"temporal_address": address})
