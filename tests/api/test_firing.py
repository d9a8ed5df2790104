"""Jobs that are fired over HTTP, with a worker behind the engine, and without an engine."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from temporalio.client import Client

from adapters import settings
from adapters.postgres.pool import Pool
from domain.jobs import schedule_id
from tests.api.relay import Relay
from tests.fixtures_api import Api, Person, serving_api

JOBS = "/automation/jobs"
REPORT: dict[str, Any] = {
    "title": "Report",
    "timezone": "UTC",
    "config": {"prompt": "What is 2+3?", "tools": []},
    "execution_profile": "chat_default",
}


async def made(api: Api, person: Person, **members: Any) -> str:
    """The URL of a new job."""
    response = await person.http.post(api.url(JOBS), json={**REPORT, **members})
    assert response.status_code == 201, response.text
    return api.url(f"{JOBS}/{response.json()['id']}")


async def ended(person: Person, url: str, *, slots: int = 1, attempt: int = 1) -> list[Any]:
    """The slots of a job once so many have ended, the latest in this attempt or later."""
    async with asyncio.timeout(60):
        while True:
            items = (await person.http.get(f"{url}/runs")).json()["items"]
            done = [item for item in items if item["finished_at"]]
            if len(done) >= slots and items[0]["attempt"] >= attempt:
                return items
            await asyncio.sleep(0.1)


async def test_a_trigger_runs_today_s_slot_once_and_once_more_only_when_asked(
    served: Api,
) -> None:
    ann = await served.person("ann")
    url = await made(served, ann)
    today = datetime.now(UTC).date().isoformat()

    first = await ann.http.post(f"{url}/trigger")
    assert first.status_code == 202
    assert first.json() == {"slot": today, "state": "requested", "run": None}
    (slot,) = await ended(ann, url)
    assert (slot["slot"], slot["status"], slot["attempt"]) == (today, "completed", 1)
    (window,) = slot["windows"]
    run = (await ann.http.get(f"/runs/{window['run_id']}")).json()
    assert (run["status"], run["origin"], run["threadId"]) == (
        *("completed", "automation"),
        window["thread_id"],
    )

    second = await ann.http.post(f"{url}/trigger")
    assert second.status_code == 409
    assert second.json()["type"] == "/problems/slot-done"
    assert (second.json()["slot"], second.json()["run"]) == (today, slot)

    assert (await ann.http.post(f"{url}/trigger", json={"again": True})).status_code == 202
    (slot,) = await ended(ann, url, attempt=2)
    assert (slot["status"], slot["attempt"], slot["reopened"]) == ("completed", 2, False)
    seen = (await ann.http.get(url)).json()
    assert (seen["last_slot"]["slot"], seen["last_slot"]["attempt"]) == (today, 2)


async def test_what_automation_did_is_not_among_the_chats(served: Api) -> None:
    ann = await served.person("ann")
    url = await made(served, ann)
    await ann.http.post(f"{url}/trigger")
    (slot,) = await ended(ann, url)
    assert (await ann.http.get("/sessions")).json()["items"] == []
    thread = slot["windows"][0]["thread_id"]
    listed = (await ann.http.get("/sessions?type=automation")).json()["items"]
    assert [session["threadId"] for session in listed] == [thread]
    history = (await ann.http.get(f"/sessions/{thread}/history")).json()["messages"]
    assert "user" not in [message["role"] for message in history]


async def test_a_trigger_while_the_slot_runs_attaches(served: Api) -> None:
    ann = await served.person("ann")
    prompt = "[[standin: tokens=100 delay_ms=20]] Hello?"
    url = await made(served, ann, config={"prompt": prompt, "tools": []})
    await ann.http.post(f"{url}/trigger")
    async with asyncio.timeout(30):
        while not (await ann.http.get(f"{url}/runs")).json()["items"]:
            await asyncio.sleep(0.05)
    again = await ann.http.post(f"{url}/trigger", json={"again": True})
    assert (again.status_code, again.json()["state"]) == (202, "running")
    assert again.json()["run"]["status"] == "running"
    (slot,) = await ended(ann, url)
    assert (slot["status"], slot["attempt"]) == ("completed", 1)


async def test_a_backfill_runs_each_past_date_once_in_order(served: Api) -> None:
    ann = await served.person("ann")
    url = await made(served, ann, run_at="00:00")
    today = datetime.now(UTC).date()
    days = [(today - timedelta(days=back)).isoformat() for back in (3, 2, 1)]
    asked = await ann.http.post(f"{url}/backfill", json={"start": days[0], "end": days[2]})
    assert asked.status_code == 202
    assert asked.json() == {"requested": days, "running": [], "done": []}
    slots = await ended(ann, url, slots=3)
    assert [slot["slot"] for slot in reversed(slots)] == days
    assert sorted(slot["started_at"] for slot in slots) == [
        slot["started_at"] for slot in reversed(slots)
    ]
    more = {"start": days[1], "end": f"{today}T00:00:00Z"}
    asked = await ann.http.post(f"{url}/backfill", json=more)
    assert asked.json() == {"requested": [str(today)], "running": [], "done": days[1:]}
    slots = await ended(ann, url, slots=4)
    assert [slot["attempt"] for slot in slots] == [1, 1, 1, 1]
    pages = (await ann.http.get(f"{url}/runs?limit=2")).json()
    rest = (await ann.http.get(f"{url}/runs?limit=3&cursor={pages['nextCursor']}")).json()
    assert [*pages["items"], *rest["items"]] == slots


async def test_a_stretch_that_holds_nothing_is_refused(api: Api, alice: Person) -> None:
    url = await made(api, alice, run_at="00:00")
    ahead = (datetime.now(UTC).date() + timedelta(days=3)).isoformat()
    for start, end, field in (
        ("2026-11-02", "2026-11-01", "end"),
        (ahead, ahead, "end"),
        ("2026-11-01T01:00Z", "2026-11-01T02:00Z", "end"),
        ("2026-01-01", "2026-06-01", "end"),
        ("0001-01-01", "2026-06-01", "start"),
        ("yesterday", "2026-06-01", "start"),
        ("2026-06-01", "2026-06-01T10:00", "end"),
    ):
        response = await alice.http.post(f"{url}/backfill", json={"start": start, "end": end})
        assert response.status_code == 422, response.text
        assert response.json()["errors"][0]["field"] == field, response.text


async def test_a_paused_job_runs_nothing_that_is_asked_for(api: Api, alice: Person) -> None:
    url = await made(api, alice)
    await alice.http.post(f"{url}/pause")
    stretch = {"start": "2026-11-01", "end": "2026-11-02"}
    for path, body in (("/trigger", None), ("/backfill", stretch)):
        response = await alice.http.post(url + path, json=body)
        assert response.status_code == 409
        assert response.json()["type"] == "/problems/job-inactive"
        assert response.json()["jobStatus"] == "paused"


@pytest.fixture
async def cut_off(
    relay: Relay, temporal_address: str, database_url: str, redis_url: str, pool: Pool
) -> AsyncGenerator[Api]:
    """An API that reaches the engine through `relay`."""
    config = settings.load(
        {},
        database_url=database_url,
        redis_url=redis_url,
        temporal_address=relay.url(temporal_address),
        run_queue="nobody",
    )
    async with serving_api(config, pool) as api:
        yield api


async def test_without_the_engine_changes_stand_and_firings_are_not_half_done(
    cut_off: Api, relay: Relay, temporal: Client
) -> None:
    ann = await cut_off.person("ann")
    fired, changed, paused = [await made(cut_off, ann, run_at="00:00") for _ in range(3)]
    today = datetime.now(UTC).date().isoformat()
    id = UUID(fired.rsplit("/", 1)[1])
    await cut_off.pool.execute(
        "INSERT INTO job_slots (job_id, slot, owner_id, scheduled_at, workflow_id,"
        " workflow_run_id, status, finished_at, snapshot)"
        " VALUES ($1, $2, $3, now(), 'w', 'r', 'completed', now(), '{}')",
        *(id, today, ann.user.id),
    )
    await relay.cut()

    stretch = {"start": today, "end": today, "again": True}
    *stood, trigger, backfill = await asyncio.gather(
        ann.http.patch(changed, json={"run_at": "03:00"}),
        ann.http.post(f"{paused}/pause"),
        ann.http.post(cut_off.url(JOBS), json=REPORT),
        ann.http.post(f"{fired}/trigger", json={"again": True}),
        ann.http.post(f"{fired}/backfill", json=stretch),
    )
    assert [response.status_code for response in stood] == [200, 200, 201]
    assert [response.json()["schedule_in_sync"] for response in stood] == [False] * 3
    assert (await ann.http.get(changed)).json()["run_at"] == "03:00"
    assert (await ann.http.get(paused)).json()["status"] == "paused"

    for response in (trigger, backfill):
        assert response.status_code == 503, response.text
        assert response.headers["retry-after"]
    (slot,) = (await ann.http.get(f"{fired}/runs")).json()["items"]
    assert (slot["status"], slot["reopened"], slot["attempt"]) == ("completed", False, 1)
    described = await temporal.get_schedule_handle(schedule_id(id)).describe()
    assert described.info.num_actions == 0
