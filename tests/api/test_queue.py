"""A second request for a session at work, delayed starts, waiting, keys, and early stops."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest

from tests.api.checks import check_stream
from tests.fixtures_api import Api, Person, accepted, run_input, serving_api
from tests.fixtures_worker import System, serving

pytestmark = pytest.mark.anyio

JSON = {"accept": "application/json"}
SLOW = "[[standin: id={} tokens=400 delay_ms=20 flush]]"


@pytest.fixture
async def served(system: System) -> AsyncGenerator[Api]:
    """With a cache of workflows, as in production: without one a worker that many workflows reach
    at once cuts off their local activities, and each waits for its task to time out."""
    config = system.settings.model_copy(update={"run_queue": uuid4().hex})
    async with (
        serving(config, system.client, system.pool),
        serving_api(config, system.pool) as api,
    ):
        yield api


@pytest.fixture
async def ada(served: Api) -> Person:
    return await served.person("ada")


def options(**varve: Any) -> dict[str, Any]:
    return {"forwardedProps": {"varve": varve}}


async def ended(person: Person, run_id: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            run = (await person.http.get(f"/runs/{run_id}")).json()
            if run["status"] in ("completed", "failed", "interrupted"):
                return run
            await asyncio.sleep(0.05)


async def post(person: Person, text: str, **members: Any) -> Any:
    return await person.http.post("/runs", json=run_input(text, **members), headers=JSON)


async def said(person: Person, thread: str = "thread", query: str = "") -> list[str]:
    history = (await person.http.get(f"/sessions/{thread}/history{query}")).json()
    return [m["content"] for m in history["messages"] if m["role"] == "user"]


async def speaking(person: Person, run_id: str) -> None:
    """Wait until the run has begun to work."""
    async with asyncio.timeout(20):
        while (await person.http.get(f"/runs/{run_id}")).json()["status"] != "running":
            await asyncio.sleep(0.02)


async def test_queued_requests_are_answered_one_after_the_other(ada: Person) -> None:
    texts = [f"number {n} [[standin: id={n} tokens=5]]" for n in range(20)]
    answers = await asyncio.gather(
        *(
            post(ada, text, run_id=f"r{n}", **options(on_busy="enqueue"))
            for n, text in enumerate(texts)
        )
    )
    assert {answer.status_code for answer in answers} == {202}
    runs = [await ended(ada, f"r{n}") for n in range(20)]
    assert {run["status"] for run in runs} == {"completed"}
    by_start = sorted(runs, key=lambda run: run["startedAt"])
    for first, second in pairwise(by_start):
        assert first["finishedAt"] <= second["startedAt"]
    by_creation = sorted(runs, key=lambda run: run["createdAt"])
    assert [run["runId"] for run in by_start] == [run["runId"] for run in by_creation]
    assert sorted(await said(ada)) == sorted(texts)
    roles = [m["role"] for m in (await ada.http.get("/sessions/thread/history")).json()["messages"]]
    assert roles == ["user", "assistant"] * 20


async def test_a_queued_run_is_not_seen_until_its_turn_and_its_stream_waits(ada: Person) -> None:
    await post(ada, SLOW.format("first"), run_id="first")
    await speaking(ada, "first")
    body = run_input("second", run_id="second", **options(on_busy="enqueue"))
    reading = asyncio.create_task(ada.http.post("/runs", json=body))
    async with asyncio.timeout(10):
        while (await ada.http.get("/runs/second")).status_code == 404:
            await asyncio.sleep(0.02)
    listed = (await ada.http.get("/runs", params={"status": "queued"})).json()["items"]
    assert [run["runId"] for run in listed] == ["second"]
    assert "second" not in await said(ada)
    await ada.http.post("/runs/first/interrupt")
    frames = check_stream((await reading).text)
    assert (frames[0]["runId"], frames[-1]["type"]) == ("second", "RUN_FINISHED")
    assert (await said(ada))[-1] == "second"


async def test_a_run_that_is_stopped_in_the_queue_never_enters_the_session(ada: Person) -> None:
    await post(ada, SLOW.format("first"), run_id="first")
    await speaking(ada, "first")
    await post(ada, "second", run_id="second", **options(on_busy="enqueue"))
    assert (await ada.http.post("/runs/second/interrupt")).json()["interrupted"] is True
    assert (await ended(ada, "second"))["status"] == "interrupted"
    frames = check_stream((await ada.http.get("/runs/second/events")).text)
    assert frames[0]["type"] == "RUN_STARTED"
    assert "second" not in await said(ada)
    assert (await ada.http.get("/runs/first")).json()["status"] == "running"
    await ada.http.post("/runs/first/interrupt")


async def test_a_terminated_run_frees_the_queue(system: System, served: Api, ada: Person) -> None:
    first = await accepted(ada, text=SLOW.format("first"), run_id="first")
    await speaking(ada, "first")
    await post(ada, "second", run_id="second", **options(on_busy="enqueue"))
    await system.client.get_workflow_handle(first["workflowId"]).terminate()
    await asyncio.sleep(2.1)  # a young run is left to whoever starts it
    busy = await post(ada, "third", run_id="third")  # whoever asks finds out
    assert busy.status_code in (202, 409)
    assert (await ended(ada, "second"))["status"] == "completed"


@pytest.mark.parametrize("policy", ["interrupt", "rollback"])
async def test_a_run_in_the_way_is_stopped(ada: Person, policy: str) -> None:
    await post(ada, "before", run_id="before")
    await ended(ada, "before")
    await post(ada, "first " + SLOW.format(policy), run_id="first")
    await speaking(ada, "first")
    answer = await post(ada, "second", run_id="second", **options(on_busy=policy))
    assert answer.status_code == 202
    assert (await ended(ada, "second"))["status"] == "completed"
    assert (await ended(ada, "first"))["status"] == "interrupted"
    texts = await said(ada)
    gone = [] if policy == "rollback" else ["first " + SLOW.format(policy)]
    assert texts == ["before", *gone, "second"]
    assert len(await said(ada, query="?include_hidden=true")) == 3
    entries = (await ada.http.get("/audit", params={"run_id": "first"})).json()["items"]
    [asked] = [e for e in entries if e["kind"] == "run_interrupt_requested"]
    assert (asked["detail"]["by_run"], asked["detail"]["on_busy"]) == ("second", policy)


async def test_what_was_rolled_back_is_in_no_window(system: System, ada: Person) -> None:
    await post(ada, "first " + SLOW.format("r"), run_id="first")
    await speaking(ada, "first")
    await post(ada, "my name is Ada", run_id="second", **options(on_busy="rollback"))
    await ended(ada, "second")
    rows = await system.pool.fetch(
        "SELECT seen FROM model_calls c JOIN runs r ON r.id = c.run_id WHERE r.run_id = 'second'"
    )
    assert len(rows) == 1
    assert "first" not in " ".join(await said(ada))
    hidden = await system.pool.fetchval(
        "SELECT count(*) FROM messages WHERE hidden_from_user AND metadata ? 'superseded_by'"
    )
    assert hidden >= 1


@pytest.mark.parametrize("policy", ["reject", "interrupt", "rollback"])
async def test_of_twenty_requests_at_once_each_has_one_end(ada: Person, policy: str) -> None:
    texts = [f"number {n} [[standin: id={n}{policy} tokens=5]]" for n in range(20)]
    answers = await asyncio.gather(
        *(
            post(ada, text, run_id=f"r{n}", **options(on_busy=policy))
            for n, text in enumerate(texts)
        )
    )
    taken = [n for n, answer in enumerate(answers) if answer.status_code == 202]
    assert {answer.status_code for answer in answers} <= {202, 409}
    if policy == "reject":
        assert taken
    else:
        assert len(taken) == 20
    ends = [(await ended(ada, f"r{n}"))["status"] for n in taken]
    assert set(ends) <= {"completed", "interrupted"}
    assert ends.count("completed") >= 1
    assert (await post(ada, "and now?", run_id="last")).status_code == 202


async def test_a_delayed_run_starts_at_its_time(ada: Person) -> None:
    at = datetime.now(UTC) + timedelta(seconds=1.5)
    answer = await post(ada, "later", run_id="later", **options(start_at=at.isoformat()))
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    assert datetime.fromisoformat(answer.json()["startAt"]) == at
    assert (await post(ada, "now", run_id="now")).status_code == 202
    await ended(ada, "now")
    run = await ended(ada, "later")
    assert run["status"] == "completed"
    assert datetime.fromisoformat(run["startedAt"]) >= at
    assert await said(ada) == ["now", "later"]
    never = await post(ada, "never", run_id="never", **options(delay_s=3600))
    assert never.status_code == 202
    await ada.http.post("/runs/never/interrupt")
    assert (await ended(ada, "never"))["status"] == "interrupted"


async def test_whoever_waits_gets_the_answer(ada: Person) -> None:
    answer = await post(ada, "what is 2+3?", **options(wait_s=20))
    assert (answer.status_code, answer.json()["answer"]) == (200, "2+3 = 5")
    body = run_input("what is 2+4?")
    answer = await ada.http.post("/runs", json=body, headers={**JSON, "prefer": "wait=20"})
    assert answer.json()["answer"] == "2+4 = 6"
    slow = await post(ada, SLOW.format("w"), run_id="slow", **options(wait_s=0.2))
    assert (slow.status_code, "answer" in slow.json()) == (202, False)
    await ada.http.post("/runs/slow/interrupt")


async def test_a_key_finds_the_run_again_under_whatever_run_id(ada: Person) -> None:
    message = {"message_id": "m", "thread_id": "t"}
    key = {**JSON, "idempotency-key": "k"}

    async def ask(text: str = "hello") -> Any:
        body = run_input(text, run_id=f"r-{uuid4().hex}", **message)
        return await ada.http.post("/runs", json=body, headers=key)

    answers = await asyncio.gather(*(ask() for _ in range(10)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["runId"] for answer in answers}) == 1
    other = await ask("something else")
    assert (other.status_code, other.json()["type"]) == (409, "/problems/run-conflict")
    assert await said(ada, "t") == ["hello"]


async def test_a_stop_that_comes_before_its_run_is_kept(served: Api, ada: Person) -> None:
    early = await ada.http.post("/runs/soon/interrupt", json={"reason": "Changed my mind."})
    assert (early.status_code, early.json()["interrupted"]) == (202, True)
    assert early.json()["status"] is None
    eve = await served.person("eve")
    assert (await eve.http.get("/runs/soon")).status_code == 404
    frames = check_stream((await ada.http.post("/runs", json=run_input("x", run_id="soon"))).text)
    assert [f["type"] for f in frames][-1] in ("RUN_FINISHED", "RUN_ERROR")
    run = (await ada.http.get("/runs/soon")).json()
    assert (run["status"], run["turns"]) == ("interrupted", 0)
    assert run["errorMessage"] == "Changed my mind."
    assert (await post(eve, "hello", run_id="soon")).status_code == 202
    assert (await ended(eve, "soon"))["status"] == "completed"


async def test_options_that_make_no_sense_are_refused_by_name(ada: Person) -> None:
    for given, field in (
        ({"on_busy": "push"}, "on_busy"),
        ({"delay_s": -1}, "delay_s"),
        ({"start_at": "tomorrow"}, "start_at"),
        ({"start_at": "2099-01-01T00:00:00Z"}, "start_at"),
        ({"wait_s": 10_000}, "wait_s"),
        ({"start_at": "2027-01-01T00:00:00Z", "delay_s": 1}, None),
    ):
        refused = await post(ada, "x", **options(**given))
        path = "forwardedProps.varve" + (f".{field}" if field else "")
        assert refused.status_code == 422, given
        assert refused.json()["errors"][0]["field"] == path
