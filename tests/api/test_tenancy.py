"""Two users and everything there is: neither ever sees, or moves, anything of the other."""

from typing import Any
from uuid import UUID, uuid4

from adapters.postgres.audit import AuditEntry, AuditStore
from adapters.postgres.checkpoints import CheckpointStore
from adapters.postgres.facts import FactStore
from adapters.postgres.jobs import JobStore
from adapters.postgres.pool import Pool
from domain.checkpoints import Action, Question, Scenario
from domain.facts import FactWrite, Rejection
from domain.identity import UserRole
from domain.ids import run_key, session_key
from domain.jobs import JobConfig, NewJob, ScheduleType, Timetable
from tests.api.paths import OPEN, VERBS, operations, paths
from tests.fixtures_api import Api, Person, accepted, parse, run_input

CANARY = "canary-7f3a"
"""In everything that is Bob's: whoever else reads it has found a hole."""
RUN, THREAD = f"run-{CANARY}", f"thread-{CANARY}"
QUERIES = {
    "/runs": (f"thread_id={THREAD}", "limit=200", "origin=chat"),
    "/sessions": ("limit=200", "type=chat", "type=automation"),
    "/sessions/{thread_id}/history": ("include_hidden=true",),
    "/runs/{run_id}/events": ("last_event_id=10000000",),
    "/memory/facts": (f"query={CANARY}", "scope=global", "limit=200"),
    "/memory/candidates": ("limit=200",),
    "/automation/jobs": ("limit=200", "status=active"),
    "/audit": (f"run_id={RUN}", "kind=run_interrupt_requested", "limit=200"),
}
BODIES = {
    "/automation/jobs/{job_id}/backfill": {"start": "2026-11-01", "end": "2026-11-02"},
    "/checkpoints/{checkpoint_id}": {"action": "stop"},
    "/runs/{run_id}/regenerate": {"runId": "mine"},
    "/runs/{run_id}/fork": {"threadId": "mine"},
    "/runs/{run_id}/checkpoints": {"scenario": "milestone", "body": "Go on?"},
}
THEIRS = ("{run_id}", "{thread_id}", "{fact_id}", "{job_id}", "{checkpoint_id}")
CHECKPOINT = "11111111-2222-4333-8444-666666666666"
STOP = "/runs/{run_id}/interrupt"
FACT = "11111111-2222-4333-8444-555555555555"


async def _bob(api: Api, pool: Pool) -> Person:
    """With a session, a run, a message, a fact, a job and an entry in the audit trail."""
    bob = await api.person(f"bob-{CANARY}")
    await accepted(bob, text=f"my secret is {CANARY}", run_id=RUN, thread_id=THREAD)
    await pool.execute("UPDATE sessions SET title = $1", f"about {CANARY}")
    config = JobConfig(f"prompt-{CANARY}", ())
    times = Timetable(ScheduleType.DAILY, "10:00", "UTC")
    await JobStore(pool).create(bob.user.id, NewJob(f"job-{CANARY}", times, config))
    fact = FactWrite(key=f"key-{CANARY}", value=f"value-{CANARY}")
    await FactStore(pool).write(bob.user.id, fact)
    await FactStore(pool).reject(bob.user.id, fact, Rejection.CONFIDENCE, write_key=CANARY)
    await pool.execute("UPDATE facts SET id = $1", FACT)
    entry = AuditEntry(
        owner_id=bob.user.id,
        kind="run_interrupt_requested",
        run_key=run_key(bob.user.id, RUN),
        session_key=session_key(bob.user.id, THREAD),
        detail={"reason": CANARY},
    )
    await AuditStore(pool).append(entry)
    await pool.execute("UPDATE runs SET status = 'running'")
    asked = Question(Scenario.MILESTONE, "Milestone", CANARY, (Action("stop", CANARY),))
    key = run_key(bob.user.id, RUN)
    await CheckpointStore(pool).raise_(key, UUID(CHECKPOINT), asked, "batch", None)
    return bob


def _fill(path: str, rollout: str, job: str = str(uuid4())) -> str:
    for name, value in {
        "{job_id}": job,
        "{run_id}": RUN,
        "{thread_id}": THREAD,
        "{fact_id}": FACT,
        "{checkpoint_id}": CHECKPOINT,
        "{name}": "chat_default",
        "{rollout_id}": rollout,
    }.items():
        path = path.replace(name, value)
    assert "{" not in path, f"{path}: give this parameter a value here"
    return path


async def _all_of_bobs(api: Api, bob: Person) -> list[Any]:
    """What Bob sees of his own; proves as well that the canary would be seen."""
    seen = [
        (await bob.http.get(api.url(path))).json()
        for path in (
            *(f"/runs/{RUN}", f"/sessions/{THREAD}", f"/sessions/{THREAD}/history", "/audit"),
            *("/checkpoints", f"/checkpoints/{CHECKPOINT}"),
            *("/memory/facts", f"/memory/facts/{FACT}", "/memory/candidates"),
            "/automation/jobs",
        )
    ]
    assert all(CANARY in str(one) for one in seen)
    return seen


async def test_no_route_under_any_verb_gives_or_changes_anything_of_another(
    api: Api, alice: Person, pool: Pool
) -> None:
    bob, olga = await _bob(api, pool), await api.person("olga", UserRole.OPERATOR)
    rule = {"profile": "chat_default", "percentage": 1}
    rollout = (await olga.http.post("/rollouts", json=rule)).json()["id"]
    job = await _job_of(api, bob)
    before = await _all_of_bobs(api, bob)
    documented = {(one.verb, one.path) for one in operations()}
    for path in paths():
        for verb in VERBS:
            queries = ["", *QUERIES.get(path, ())]
            if path.startswith(("/automation", "/checkpoints")):
                queries.append(f"owner_id={bob.user.id}")
            for query in queries:
                url = f"{_fill(path, rollout, job)}?{query}"
                given = {"json": BODIES.get(path, {})}
                body: dict[str, Any] = given if verb in ("post", "put", "patch") else {}
                response = await alice.http.request(verb, api.url(url), **body)
                where = f"{verb} {url}: {response.status_code} {response.text}"
                own = path == STOP  # says the run id that was asked for
                assert own or CANARY not in response.text, where
                assert CANARY not in str(response.headers), where
                if (verb, path) not in documented:
                    assert response.status_code in (404, 405), where
                elif query.startswith("owner_id="):
                    assert response.status_code in (403, 422), where
                elif path == STOP and verb == "post":
                    assert response.json()["status"] is None, where  # a run of her own, to come
                elif any(name in path for name in THEIRS):
                    assert response.status_code == 404, where
                elif path.startswith("/rollouts"):
                    assert response.status_code in (403, 422), where
                else:
                    assert response.status_code in (200, 422), where
    assert await _all_of_bobs(api, bob) == before
    assert [rule["id"] for rule in (await olga.http.get("/rollouts")).json()] == [rollout]


async def _job_of(api: Api, person: Person) -> str:
    jobs = (await person.http.get(api.url("/automation/jobs"))).json()["items"]
    return next(job["id"] for job in jobs if job["builtin"] is None)


async def test_to_an_operator_too_runs_and_sessions_of_others_do_not_exist(
    api: Api, pool: Pool
) -> None:
    bob, olga = await _bob(api, pool), await api.person("olga", UserRole.OPERATOR)
    before = await _all_of_bobs(api, bob)
    walked = 0
    for one in operations():
        if any(name in one.path for name in THEIRS):
            url = api.url(_fill(one.path, "", await _job_of(api, bob)))
            body: dict[str, Any] = {"json": BODIES[one.path]} if one.path in BODIES else {}
            if one.verb == "patch":
                body = {"json": {}}
            response = await olga.http.request(one.verb, url, **body)
            found = 202 if one.path == STOP else 404  # a run of her own, to come
            assert response.status_code == found, str(one)
            assert CANARY not in response.json()["detail"], str(one)
            walked += 1
    assert walked >= 5
    for path in (
        *("/runs", "/sessions", "/audit", "/memory/facts", "/memory/candidates"),
        "/automation/jobs",
    ):
        assert CANARY not in (await olga.http.get(api.url(path))).text
    assert await _all_of_bobs(api, bob) == before


async def test_without_a_key_that_holds_nothing_is_answered_but_health(
    api: Api, pool: Pool
) -> None:
    await _bob(api, pool)
    for key in (None, "vk_00000000_wrong"):
        stranger = api.client(key)
        for one in operations():
            url = _fill(one.path, str(uuid4()))
            response = await stranger.request(one.verb, api.url(url))
            assert CANARY not in response.text
            if one.path in OPEN:
                assert response.status_code == 200
                continue
            assert response.status_code == 401, str(one)
            assert response.headers["content-type"] == "application/problem+json"
            assert response.headers["www-authenticate"].startswith("Bearer")


async def test_two_users_may_choose_the_same_ids_and_each_sees_their_own(served: Api) -> None:
    ann, ben = await served.person("ann"), await served.person("ben")
    ids = {"run_id": "r", "thread_id": "t", "message_id": "m"}
    tell = run_input(f"remember that my name is {CANARY}", **ids)
    assert CANARY in (await ann.http.post("/runs", json=tell)).text
    ask = run_input("what do you know about me", **ids)
    stream = (await ben.http.post("/runs", json=ask)).text
    assert parse(stream)[-1].frame["type"] == "RUN_FINISHED"
    assert "memory_search" in stream
    assert CANARY not in stream
    for path in (
        *("/runs/r", "/runs/r/events", "/runs", "/sessions", "/sessions/t"),
        *("/sessions/t/history?include_hidden=true", "/audit", "/audit?run_id=r"),
    ):
        hers, his = await ann.http.get(path), await ben.http.get(path)
        assert (hers.status_code, his.status_code) == (200, 200), path
        assert hers.text != his.text, path
        assert CANARY not in his.text, path
    assert CANARY in (await ann.http.get("/sessions/t/history")).text
    assert len((await ben.http.get("/runs")).json()["items"]) == 1


async def test_stopping_a_run_leaves_the_one_of_the_same_name_alone(
    api: Api, alice: Person
) -> None:
    bob = await api.person("bob")
    for person in (alice, bob):
        await accepted(person, run_id="r", thread_id="t")
    before = (await bob.http.get("/runs/r")).json()
    assert (await alice.http.post("/runs/r/interrupt")).json()["interrupted"] is True
    assert (await bob.http.get("/runs/r")).json() == before
    assert (await bob.http.get("/audit")).json()["items"] == []
    assert (await bob.http.get("/sessions/t/history")).json()["activeRunId"] == "r"
