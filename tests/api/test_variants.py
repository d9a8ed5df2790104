"""Answer once more; go on elsewhere."""

import asyncio
from typing import Any

import pytest

from tests.api.checks import check_stream
from tests.fixtures_api import Api, Person, run_input
from tests.fixtures_worker import System

pytestmark = pytest.mark.anyio

JSON = {"accept": "application/json"}


@pytest.fixture
async def ada(served: Api) -> Person:
    return await served.person("ada")


async def say(person: Person, text: str, run_id: str, thread: str = "t") -> None:
    body = run_input(text, run_id=run_id, thread_id=thread)
    assert (await person.http.post("/runs", json=body)).status_code == 200


async def said(person: Person, thread: str = "t", query: str = "") -> list[tuple[str, str]]:
    found = (await person.http.get(f"/sessions/{thread}/history{query}")).json()["messages"]
    return [(m["role"], m["content"]) for m in found if m["role"] in ("user", "assistant")]


async def test_an_answer_is_given_once_more_and_the_old_one_is_out(ada: Person) -> None:
    await say(ada, "what is 1+1?", "one")
    await say(ada, "what is 2+2? [[standin: tokens=9]]", "two")
    before = await said(ada)
    again = await ada.http.post("/runs/two/regenerate", json={"runId": "three"})
    frames = check_stream(again.text)
    snapshot = next(f for f in frames if f["type"] == "MESSAGES_SNAPSHOT")["messages"]
    assert [m["role"] for m in snapshot] == ["user", "assistant", "user"]
    after = await said(ada)
    assert (len(after), after[:3]) == (4, before[:3])
    assert len(await said(ada, query="?include_hidden=true")) == 5
    same = await ada.http.post("/runs/two/regenerate", json={"runId": "three"})
    assert [f["type"] for f in check_stream(same.text)] == [f["type"] for f in frames]
    assert await said(ada) == after

    async def once_more(run_id: str) -> Any:
        url, body = f"/runs/{run_id}/regenerate", {"runId": "four"}
        return await ada.http.post(url, json=body, headers=JSON)

    old = await once_more("one")
    assert (old.status_code, old.json()["type"]) == (409, "/problems/not-latest")
    new = await once_more("three")
    assert new.status_code == 202
    assert (await once_more("nobody")).status_code == 404


async def test_a_fork_has_what_was_said_and_goes_its_own_way(
    ada: Person, system: System, served: Api
) -> None:
    await say(ada, "my name is Ada", "one")
    await say(ada, "what is 2+2?", "two")
    await say(ada, "what is 3+3?", "three")
    whole = await said(ada)
    forked = await ada.http.post("/runs/two/fork", json={"threadId": "fork"})
    assert (forked.status_code, forked.json()["messages"]) == (201, 4)
    assert await said(ada, "fork") == whole[:4]
    await say(ada, "what is 4+4?", "four", "fork")
    assert await said(ada) == whole
    assert len(await said(ada, "fork")) == 6
    first = (await ada.http.get("/sessions/t/history")).json()["messages"][0]["id"]
    part = {"threadId": "part", "messageId": first}
    assert (await ada.http.post("/runs/three/fork", json=part)).json()["messages"] == 1
    taken = await ada.http.post("/runs/two/fork", json={"threadId": "fork"})
    assert taken.json()["errors"][0]["field"] == "threadId"
    missing = {"threadId": "x", "messageId": "no such"}
    assert (await ada.http.post("/runs/two/fork", json=missing)).status_code == 404
    eve = await served.person("eve")
    theirs = await eve.http.post("/runs/two/fork", json={"threadId": "x"})
    assert theirs.status_code == 404
    unread = await system.pool.fetch(
        "SELECT m.content FROM messages m JOIN sessions s ON s.id = m.session_id "
        "WHERE m.role = 'user' AND m.seq > s.forked_through ORDER BY m.created_at"
    )
    assert [row["content"] for row in unread] == [
        *("my name is Ada", "what is 2+2?", "what is 3+3?", "what is 4+4?")
    ]


async def test_twenty_at_once_are_one_answer(ada: Person) -> None:
    await say(ada, "what is 1+1?", "one")
    answers = await asyncio.gather(
        *(
            ada.http.post("/runs/one/regenerate", json={"runId": "again"}, headers=JSON)
            for _ in range(20)
        )
    )
    assert {answer.status_code for answer in answers} == {202}
    async with asyncio.timeout(20):
        while (await ada.http.get("/runs/again")).json()["status"] != "completed":
            await asyncio.sleep(0.05)
    assert len(await said(ada)) == 2
