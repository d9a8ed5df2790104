"""Jobs over HTTP: written, changed, refused; the engine's Schedule goes along."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from adapters.postgres.users import UserStore
from domain.identity import ALL_SCOPES, Scope, UserRole
from domain.jobs import schedule_id
from tests.fixtures_api import Api, Person, run_input

JOBS = "/automation/jobs"
CONFIG: dict[str, Any] = {"prompt": "Look at what is new.", "tools": ["memory_search"]}
INLINE: dict[str, Any] = {
    "name": "mine",
    "executor": "worker",
    "model": {"name": "qwen3.5-flash"},
}


def job(**members: Any) -> dict[str, Any]:
    return {"title": "News", "config": CONFIG, **members}


async def made(api: Api, person: Person, **members: Any) -> dict[str, Any]:
    response = await person.http.post(api.url(JOBS), json=job(**members))
    assert response.status_code == 201, response.text
    return response.json()


async def test_a_user_is_born_with_a_daily_memory_job(api: Api, alice: Person) -> None:
    (only,) = (await alice.http.get(api.url(JOBS))).json()["items"]
    assert only["builtin"] == "daily_memory"
    assert (only["schedule_type"], only["run_at"]) == ("daily", "10:00")
    assert only["execution_profile"] == "automation_memory_default"
    assert (only["missed"], only["last_slot"]) == ([], None)
    local = datetime.fromisoformat(only["next_run_local"])
    assert (local.hour, local.minute) == (10, 0)
    assert local.utcoffset() == timedelta(hours=8)
    assert local == datetime.fromisoformat(only["next_run_at"])


async def test_a_job_has_its_schedule_when_the_answer_comes(
    api: Api, alice: Person, temporal: Client
) -> None:
    new = await made(api, alice, run_at="07:45", timezone="Europe/London")
    assert new["schedule_in_sync"] is True
    handle = temporal.get_schedule_handle(schedule_id(UUID(new["id"])))
    spec = (await handle.describe()).schedule.spec
    assert spec.time_zone_name == "Europe/London"
    assert (spec.calendars[0].hour[0].start, spec.calendars[0].minute[0].start) == (7, 45)

    url = api.url(f"{JOBS}/{new['id']}")
    changed = (await alice.http.patch(url, json={"run_at": "08:00", "title": "Papers"})).json()
    assert (changed["run_at"], changed["title"]) == ("08:00", "Papers")
    assert changed["config"] == CONFIG
    assert (await handle.describe()).schedule.spec.calendars[0].hour[0].start == 8

    assert (await alice.http.post(f"{url}/pause")).json()["status"] == "paused"
    assert (await handle.describe()).schedule.state.paused
    resumed = (await alice.http.post(f"{url}/resume")).json()
    assert (resumed["status"], resumed["next_run_at"] is not None) == ("active", True)
    assert not (await handle.describe()).schedule.state.paused

    gone = (await alice.http.delete(url)).json()
    assert (gone["status"], gone["schedule_in_sync"]) == ("deleted", True)
    with pytest.raises(RPCError):
        await handle.describe()
    assert (await alice.http.get(url)).status_code == 404


async def test_what_was_read_can_be_written_again(api: Api, alice: Person) -> None:
    written = ("title", "schedule_type", "run_at", "weekday", "timezone", "config")
    for given in (
        job(schedule_type="weekly", weekday=3, run_at="23:59", timezone="Asia/Kathmandu"),
        job(schedule_type="cron", run_at="*/15 8-18 * * 1-5", execution_profile=INLINE),
        job(schedule_type="once", run_at="2099-01-01T10:00+08:00"),
    ):
        first = await made(api, alice, **given)
        document = {m: first[m] for m in (*written, "execution_profile") if first[m] is not None}
        second = await made(api, alice, **document)
        assert {m: second[m] for m in document} == document


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"title": " "}, "title"),
    ({"title": "x" * 201}, "title"),
    ({"surprise": 1}, "surprise"),
    ({"status": "paused"}, "status"),
    ({"config": {**CONFIG, "surprise": 1}}, "config.surprise"),
    ({"config": {"tools": []}}, "config.prompt"),
    ({"config": {"prompt": " \n", "tools": []}}, "config.prompt"),
    ({"config": {"prompt": "x" * 2_001, "tools": []}}, "config.prompt"),
    ({"config": {"prompt": "x", "tools": ["memory_search", "fly"]}}, "config.tools.1"),
    ({"config": {"prompt": "x", "tools": ["*"]}}, "config.tools.0"),
    ({"timezone": "Mars/Olympus"}, "timezone"),
    ({"run_at": "24:00"}, "run_at"),
    ({"run_at": "2027-01-01T10:00Z"}, "run_at"),
    ({"schedule_type": "hourly"}, "schedule_type"),
    ({"schedule_type": "once"}, "run_at"),
    ({"schedule_type": "once", "run_at": "2001-01-01T10:00Z"}, "run_at"),
    ({"schedule_type": "once", "run_at": "2099-01-01T10:00"}, "run_at"),
    ({"schedule_type": "cron", "run_at": "61 * * * *"}, "run_at"),
    ({"schedule_type": "cron", "run_at": "0 0 31 2 *"}, "run_at"),
    ({"weekday": 3}, "weekday"),
    ({"schedule_type": "weekly", "weekday": 8}, "weekday"),
    ({"execution_profile": "no_such_profile"}, "execution_profile"),
    ({"execution_profile": "subtask_default"}, "execution_profile"),
    ({"execution_profile": 7}, "execution_profile"),
    ({"execution_profile": {**INLINE, "surprise": 1}}, "execution_profile.surprise"),
    ({"execution_profile": {**INLINE, "prompt": "nobody"}}, "execution_profile.prompt"),
    (
        {"execution_profile": {**INLINE, "model": {"name": "m", "surprise": 1}}},
        "execution_profile.model.surprise",
    ),
    (
        {"execution_profile": {**INLINE, "tool_policy": {"allowlist": ["a\0b"]}}},
        "execution_profile",
    ),
]


async def test_what_does_not_fit_is_refused_and_the_field_is_named(api: Api, alice: Person) -> None:
    existing = await made(api, alice)
    url = api.url(f"{JOBS}/{existing['id']}")
    for members, field in REFUSED:
        answers = [await alice.http.post(api.url(JOBS), json=job(**members))]
        if members.get("config") != {"tools": []}:  # a part of a config is a change
            answers.append(await alice.http.patch(url, json=members))
        for response in answers:
            where = f"{members}: {response.status_code} {response.text}"
            assert response.status_code == 422, where
            assert response.headers["content-type"] == "application/problem+json"
            assert response.json()["errors"][0]["field"] == field, where
    assert len((await alice.http.get(api.url(JOBS))).json()["items"]) == 2
    kept = (await alice.http.get(url)).json()
    assert kept == {name: existing[name] for name in kept}


async def test_null_is_not_as_it_is(api: Api, alice: Person) -> None:
    url = api.url(f"{JOBS}/{(await made(api, alice))['id']}")
    for members, field in (({"run_at": None}, "run_at"), ({"config": {"tools": None}}, "tools")):
        response = await alice.http.patch(url, json=members)
        assert response.status_code == 422
        assert response.json()["errors"][0]["field"].endswith(field)


async def test_old_fields_of_a_profile_are_taken_and_never_kept(api: Api, alice: Person) -> None:
    old = {**INLINE, "enable_router": True, "history_policy": {"window": "today_yesterday"}}
    new = await made(api, alice, execution_profile=old)
    assert new["execution_profile"]["history_policy"]["n"] == 20
    kept = await api.pool.fetchval(
        "SELECT execution_profile::text FROM automation_jobs WHERE id = $1", UUID(new["id"])
    )
    for word in ("enable_router", "today_yesterday", "window"):
        assert word not in str(new["execution_profile"])
        assert word not in kept


async def test_an_operator_may_name_a_profile_that_users_may_not(api: Api) -> None:
    olga = await api.person("olga", UserRole.OPERATOR)
    assert (await made(api, olga, execution_profile="subtask_default"))["status"] == "active"


async def test_jobs_come_in_pages_and_by_status(api: Api, alice: Person) -> None:
    made_ids = [(await made(api, alice, title=str(n)))["id"] for n in range(3)]
    await alice.http.post(api.url(f"{JOBS}/{made_ids[0]}/pause"))
    seen: list[str] = []
    url, cursor = api.url(f"{JOBS}?limit=3"), ""
    while True:
        page = (await alice.http.get(url + cursor)).json()
        seen += [item["id"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert seen[:3] == made_ids[::-1]
    assert len(seen) == 4
    paused = (await alice.http.get(api.url(f"{JOBS}?status=paused"))).json()["items"]
    assert [item["id"] for item in paused] == made_ids[:1]


async def test_an_operator_acts_for_an_owner_and_it_is_in_the_owner_s_audit(
    api: Api, alice: Person
) -> None:
    olga = await api.person("olga", UserRole.OPERATOR)
    owner = {"owner_id": str(alice.user.id)}
    new = await olga.http.post(api.url(JOBS), json=job(), params=owner)
    assert (new.status_code, new.json()["owner_id"]) == (201, str(alice.user.id))
    id = new.json()["id"]
    url = api.url(f"{JOBS}/{id}")
    assert (await olga.http.get(url)).status_code == 404
    stretch = {"start": "2026-11-01", "end": "2026-11-01"}
    for verb, path, body in (
        *(("get", "", None), ("patch", "", {"title": "Theirs"}), ("get", "/runs", None)),
        *(("post", "/pause", None), ("post", "/resume", None), ("post", "/trigger", None)),
        *(("post", "/backfill", stretch), ("delete", "", None)),
    ):
        response = await olga.http.request(verb, url + path, json=body, params=owner)
        assert response.is_success, response.text
    listed = await olga.http.get(api.url(JOBS), params=owner)
    assert [item["builtin"] for item in listed.json()["items"]] == ["daily_memory"]

    auditor = api.client(await _key(api, alice))
    rows = (await auditor.get("/audit?kind=operator_acted")).json()["items"]
    assert {row["actorId"] for row in rows} == {str(olga.user.id)}
    what = [row["detail"]["what"] for row in reversed(rows)]
    assert what[0] == "POST /automation/jobs"
    assert what[-1] == "GET /automation/jobs"
    assert "POST /automation/jobs/{job_id}/trigger" in what
    assert len(what) == 10
    assert rows[1]["detail"]["job_id"] == id

    assert (await olga.http.get(url, params={"owner_id": str(uuid4())})).status_code == 404
    refused = await alice.http.get(api.url(JOBS), params={"owner_id": str(olga.user.id)})
    assert refused.status_code == 403
    assert (await alice.http.get(api.url(JOBS), params=owner)).status_code == 200


async def _key(api: Api, person: Person) -> str:
    return (await UserStore(api.pool).create_key(person.user.id, ALL_SCOPES))[1]


async def test_a_key_without_the_scope_gets_nowhere(api: Api) -> None:
    reader = await api.person("reader", scopes=[Scope.JOBS_READ])
    runner = await api.person("runner", scopes=[Scope.RUNS_READ, Scope.RUNS_WRITE])
    assert (await reader.http.get(api.url(JOBS))).status_code == 200
    assert (await reader.http.post(api.url(JOBS), json=job())).status_code == 403
    assert (await runner.http.get(api.url(JOBS))).status_code == 403


async def test_ids_of_jobs_are_not_for_clients_to_choose(api: Api, alice: Person) -> None:
    for member in ("threadId", "runId"):
        body = {**run_input(), member: f"job:{uuid4()}"}
        response = await alice.http.post("/runs", json=body)
        assert response.status_code == 422
        assert response.json()["errors"][0]["field"] == member


async def test_what_is_owed_is_listed_as_missed(api: Api, alice: Person) -> None:
    new = await made(api, alice, run_at="00:00", timezone="UTC")
    await api.pool.execute(
        "UPDATE automation_jobs SET expected_from = now() - interval '2 days' WHERE id = $1",
        UUID(new["id"]),
    )
    missed = (await alice.http.get(api.url(f"{JOBS}/{new['id']}"))).json()["missed"]
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    assert yesterday in missed
    assert missed == sorted(missed)
