"""A run that leaves nothing behind."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from adapters.postgres.stateless import StatelessStore
from tests.api.checks import check_stream
from tests.fixtures_api import Api, Person, run_input
from tests.fixtures_worker import System

pytestmark = pytest.mark.anyio

ONCE: dict[str, Any] = {"forwardedProps": {"varve": {"stateless": True}}}
SAID: list[dict[str, Any]] = [
    {"id": "a", "role": "user", "content": "my number is 42"},
    {"id": "b", "role": "assistant", "content": "I see."},
    {"id": "c", "role": "user", "content": "what is 1+1?"},
]


@pytest.fixture
async def ada(served: Api) -> Person:
    return await served.person("ada")


async def test_it_answers_what_it_is_given_and_is_gone_afterwards(
    ada: Person, system: System
) -> None:
    body = {**run_input(thread_id="once", run_id="r", **ONCE), "messages": SAID}
    frames = check_stream((await ada.http.post("/runs", json=body)).text)
    snapshot = next(f for f in frames if f["type"] == "MESSAGES_SNAPSHOT")["messages"]
    assert [m["id"] for m in snapshot] == ["a", "b", "c"]
    seen = await system.pool.fetchval("SELECT seen ->> 'messages' FROM model_calls")
    assert '"a"' in seen
    assert (await ada.http.get("/sessions")).json()["items"] == []
    again = check_stream((await ada.http.post("/runs", json=body)).text)
    assert [f["type"] for f in again] == [f["type"] for f in frames]
    for taken in (run_input("more", thread_id="once"), run_input("x", thread_id="once", **ONCE)):
        refused = await ada.http.post("/runs", json=taken)
        assert refused.json()["errors"][0]["field"] == "threadId"
    store = StatelessStore(system.pool)
    assert await store.forget(datetime.now(UTC) - timedelta(hours=1), 10) == 0
    await asyncio.sleep(0.1)
    assert await store.forget(datetime.now(UTC), 10) == 1
    assert (await ada.http.get("/runs/r")).status_code == 404
    for table in ("messages", "runs", "run_events", "model_calls"):
        assert await system.pool.fetchval(f"SELECT count(*) FROM {table}") == 0  # noqa: S608
    assert (await ada.http.post("/runs", json=body)).status_code == 200


async def test_what_it_was_told_to_remember_is_kept_with_what_says_so(
    ada: Person, system: System
) -> None:
    body = run_input("remember that my name is Ada", thread_id="once", **ONCE)
    check_stream((await ada.http.post("/runs", json=body)).text)
    assert await StatelessStore(system.pool).forget(datetime.now(UTC), 10) == 0
    (fact,) = (await ada.http.get("/memory/facts")).json()["items"]
    why = (await ada.http.get(f"/memory/facts/{fact['id']}")).json()
    assert why["evidence"][0]["text"] == "remember that my name is Ada"


async def test_it_starts_at_once(ada: Person) -> None:
    later: dict[str, Any] = {"forwardedProps": {"varve": {"stateless": True, "delay_s": 5}}}
    refused = await ada.http.post("/runs", json=run_input("x", **later))
    assert refused.status_code == 422
