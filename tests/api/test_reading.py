"""Lists, sessions, history, catalogue, health: what a client reads beside the stream."""

from collections.abc import AsyncGenerator

import pytest

from adapters.postgres.pool import Pool
from adapters.postgres.runs import RunStore
from adapters.stream import EventStream, open_redis
from domain.identity import Scope, UserRole
from domain.ids import run_key
from tests.adapters.live_feed import Feed
from tests.fixtures_api import Api, Person, accepted
from tests.people import begin


@pytest.fixture
async def alice(api: Api) -> Person:
    return await api.person("alice")


@pytest.fixture
async def stream(redis_url: str) -> AsyncGenerator[EventStream]:
    async with open_redis(redis_url) as redis:
        yield EventStream(redis, cap=1_000, ttl_s=60)


async def test_runs_are_listed_newest_first_page_by_page(alice: Person) -> None:
    for n in range(5):
        await accepted(alice, run_id=f"r{n}", thread_id=f"t{n}")
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": "2", **({"cursor": cursor} if cursor else {})}
        page = (await alice.http.get("/runs", params=params)).json()
        seen += [run["runId"] for run in page["items"]]
        if (cursor := page["nextCursor"]) is None:
            break
    assert seen == ["r4", "r3", "r2", "r1", "r0"]


async def test_runs_are_filtered(alice: Person, pool: Pool) -> None:
    await accepted(alice, run_id="r1", thread_id="t1")
    await accepted(alice, run_id="r2", thread_id="t2")
    await pool.execute("UPDATE runs SET status = 'failed', profile_name = 'p' WHERE run_id = 'r1'")
    for params, expected in (
        ({"status": "failed"}, ["r1"]),
        ({"profile": "p"}, ["r1"]),
        ({"executor": "memory"}, []),
        ({"origin": "chat"}, ["r2", "r1"]),
        ({"thread_id": "t2"}, ["r2"]),
        ({"since": "2100-01-01T00:00:00Z"}, []),
        ({"until": "2100-01-01T00:00:00+08:00", "status": "accepted"}, ["r2"]),
    ):
        page = (await alice.http.get("/runs", params=params)).json()
        assert [run["runId"] for run in page["items"]] == expected, params


BAD_QUERIES = [
    "limit=0",
    "limit=x",
    "cursor=x",
    "cursor=MjAwIHg=",
    "status=odd",
    "since=2026-01-01",
]


@pytest.mark.parametrize("query", BAD_QUERIES)
async def test_a_query_that_makes_no_sense_is_refused_by_name(alice: Person, query: str) -> None:
    response = await alice.http.get(f"/runs?{query}")
    assert response.status_code == 422
    name = query.split("=")[0]
    assert [error["field"] for error in response.json()["errors"]] == [name]


async def test_a_session_is_loaded_with_where_to_go_on_from(
    alice: Person, pool: Pool, stream: EventStream
) -> None:
    await accepted(alice, run_id="r1", thread_id="t1", message_id="m1", text="hi")
    key = run_key(alice.user.id, "r1")
    await begin(pool, key)
    feed = Feed(pool, stream, await RunStore(pool).get_by_key(key))
    await feed.turn_of("hello")
    history = (await alice.http.get("/sessions/t1/history")).json()
    assert [(m["role"], m["content"]) for m in history["messages"]] == [
        ("user", "hi"),
        ("assistant", "hello"),
    ]
    assert (history["state"], history["pendingInterrupts"]) == ({}, [])
    assert history["activeRunId"] == "r1"
    await feed.finish()
    rest = await alice.http.get("/runs/r1/events", params={"last_event_id": history["lastEventId"]})
    assert "RUN_FINISHED" in rest.text
    assert "hello" not in rest.text
    assert (await alice.http.get("/sessions/t1/history")).json()["activeRunId"] is None
    assert (await alice.http.get("/sessions/t1")).json()["messages"] == 2
    assert [s["threadId"] for s in (await alice.http.get("/sessions")).json()["items"]] == ["t1"]


async def test_hidden_messages_need_the_audit_scope(api: Api, alice: Person, pool: Pool) -> None:
    await accepted(alice, thread_id="t1")
    await pool.execute("UPDATE messages SET hidden_from_user = true")
    url = "/sessions/t1/history"
    assert (await alice.http.get(url)).json()["messages"] == []
    shown = (await alice.http.get(url, params={"include_hidden": "true"})).json()
    assert len(shown["messages"]) == 1
    reader = await api.person("reader", scopes=[Scope.RUNS_READ])
    refused = await reader.http.get(url, params={"include_hidden": "true"})
    assert refused.status_code == 403


async def test_interrupting_a_run_that_was_never_started_ends_it(
    alice: Person, pool: Pool, temporal: object
) -> None:
    await accepted(alice, run_id="r1")
    await pool.execute("UPDATE runs SET status = 'completed'")
    done = await alice.http.post("/runs/r1/interrupt", json={"reason": "enough"})
    assert done.status_code == 202
    assert (done.json()["interrupted"], done.json()["status"]) == (False, "completed")
    await pool.execute("UPDATE runs SET status = 'accepted'")
    stopped = (await alice.http.post("/runs/r1/interrupt")).json()
    assert stopped["interrupted"] is True


async def test_the_catalogue_is_there(alice: Person) -> None:
    profiles = (await alice.http.get("/profiles")).json()
    assert "chat_default" in {profile["name"] for profile in profiles}
    assert (await alice.http.get("/profiles/chat_default")).json() in profiles
    assert (await alice.http.get("/profiles/none")).status_code == 404
    models = (await alice.http.get("/models")).json()
    assert "chat_default" in models[0]["profiles"]
    tools = {tool["name"]: tool for tool in (await alice.http.get("/tools")).json()}
    assert tools["memory_search"]["parameters"]["type"] == "object"
    capabilities = (await alice.http.get("/capabilities")).json()
    assert capabilities["transport"] == {"streaming": True, "resumable": True}
    assert {tool["name"] for tool in capabilities["tools"]["items"]} == set(tools)


async def test_rollouts_are_for_operators(api: Api, alice: Person) -> None:
    rule = {"profile": "chat_default", "percentage": 25}
    assert (await alice.http.post("/rollouts", json=rule)).status_code == 403
    assert (await alice.http.get("/rollouts")).status_code == 403
    olga = (await api.person("olga", UserRole.OPERATOR)).http
    made = await olga.post("/rollouts", json=rule)
    assert made.status_code == 201
    assert (await olga.get("/rollouts")).json() == [made.json()]
    for wrong in ({"profile": "none"}, {"percentage": 101}, {"colour": "red"}, {"percentage": "x"}):
        assert (await olga.post("/rollouts", json={**rule, **wrong})).status_code == 422
    gone = f"/rollouts/{made.json()['id']}"
    assert (await olga.delete(gone)).status_code == 204
    assert (await olga.delete(gone)).status_code == 404
    kinds = [entry["kind"] for entry in (await olga.get("/audit")).json()["items"]]
    assert kinds == ["rollout_removed", "rollout_added"]


async def test_health_names_each_part(api: Api) -> None:
    client = api.client()
    assert (await client.get("/health/live")).status_code == 200
    ready = (await client.get("/health/ready")).json()
    assert ready["status"] == "ready"
    assert {part["status"] for part in ready["parts"].values()} == {"up"}
    assert set(ready["parts"]) == {"database", "redis", "temporal"}


async def test_cors_lets_the_app_send_what_it_must(api: Api) -> None:
    headers = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,last-event-id",
    }
    response = await api.client().options("/runs", headers=headers)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "https://app.example"
    other = await api.client().options("/runs", headers={**headers, "origin": "https://evil"})
    assert "access-control-allow-origin" not in other.headers


async def test_unknown_paths_and_verbs_are_problems_too(alice: Person) -> None:
    for verb, path, status in (("GET", "/nothing", 404), ("PUT", "/runs", 405)):
        response = await alice.http.request(verb, path)
        assert response.status_code == status
        assert response.headers["content-type"] == "application/problem+json"


async def test_the_document_is_complete(api: Api) -> None:
    document = (await api.client().get("/openapi.json")).json()
    assert "ApiKey" in document["components"]["securitySchemes"]
    for path, item in document["paths"].items():
        for verb, operation in item.items():
            assert operation["summary"], (verb, path)
            if "/health/" in path:
                continue
            assert operation["security"], (verb, path)
            for status in ("401", "422", "503"):
                assert "application/problem+json" in operation["responses"][status]["content"]
