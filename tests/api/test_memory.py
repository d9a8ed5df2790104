"""Memory over HTTP: read, searched, explained, corrected, forgotten, purged."""

from typing import Any

import pytest

from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool
from domain.facts import FactWrite, Rejection
from domain.identity import Scope
from tests.fixtures_api import Api, Person
from tests.remembered import said

pytestmark = pytest.mark.anyio
TEA: dict[str, Any] = {"key": "drink", "value": "Likes green tea.", "tags": ["Drinks"]}


@pytest.fixture
async def ada(api: Api) -> Person:
    return await api.person("ada")


async def write(person: Person, body: dict[str, Any]) -> str:
    response = await person.http.post("/memory/facts", json=body)
    assert response.status_code == 201, response.text
    return response.json()["fact"]["id"]


async def test_what_a_person_says_is_listed_and_found(ada: Person) -> None:
    fact_id = await write(ada, TEA)
    listed = (await ada.http.get("/memory/facts")).json()
    assert [item["id"] for item in listed["items"]] == [fact_id]
    assert listed["items"][0]["tags"] == ["drinks"]
    found = (await ada.http.get("/memory/facts?query=tea")).json()
    assert (found["items"][0]["id"], found["degraded"]) == (fact_id, False)
    assert found["items"][0]["score"] > 0
    nothing = (await ada.http.get("/memory/facts?query=tea&scope=agent:x")).json()
    assert nothing["items"] == []


async def test_the_same_again_is_known_and_another_value_a_new_version(ada: Person) -> None:
    first = await write(ada, TEA)
    again = (await ada.http.post("/memory/facts", json=TEA)).json()
    assert (again["outcome"], again["fact"]["id"]) == ("known", first)
    second = await write(ada, {**TEA, "value": "Coffee."})
    history = (await ada.http.get(f"/memory/facts/{first}")).json()
    assert [each["id"] for each in history["versions"]] == [second, first]
    assert (history["fact"]["current"], history["fact"]["supersededBy"]) == (False, second)
    assert (history["evidence"], history["sourceRun"]) == ([], None)


async def test_a_fact_says_why_it_is_known(ada: Person, pool: Pool) -> None:
    message = await said(pool, ada.user.id, "I like green tea")
    run = await pool.fetchrow("SELECT id, run_id FROM runs WHERE owner_id = $1", ada.user.id)
    assert run is not None
    done = await FactStore(pool).write(
        ada.user.id, FactWrite("drink", "Green tea.", evidence=(message,)), source_run=run["id"]
    )
    assert done.fact is not None
    history = (await ada.http.get(f"/memory/facts/{done.fact.id}")).json()
    (source,) = history["evidence"]
    assert (source["text"], source["role"]) == ("I like green tea", "user")
    assert (source["messageId"], source["runId"]) == (message.message_id, run["run_id"])
    assert history["sourceRun"]["runId"] == run["run_id"]


async def test_forgotten_is_gone_from_lists_and_purged_is_gone_for_good(
    ada: Person, pool: Pool
) -> None:
    fact_id = await write(ada, TEA)
    path = f"/memory/facts/{fact_id}"
    assert (await ada.http.delete(f"{path}?reason=asked")).status_code == 204
    assert (await ada.http.delete(path)).status_code == 404
    assert (await ada.http.get("/memory/facts")).json()["items"] == []
    assert (await ada.http.get(path)).json()["fact"]["forgottenAt"]
    gone = await ada.http.post(f"{path}/purge")
    assert (gone.status_code, gone.json()) == (200, {"versions": 1, "candidates": 0})
    assert (await ada.http.get(path)).status_code == 404
    audit = (await ada.http.get("/audit")).json()["items"]
    assert [entry["kind"] for entry in audit] == ["fact_purged", "fact_forgotten", "fact_written"]
    assert {entry["actorId"] for entry in audit} == {str(ada.user.id)}


async def test_what_was_not_believed_can_be_looked_at(ada: Person, pool: Pool) -> None:
    guess = FactWrite("drink", "Perhaps coffee.", confidence=0.3)
    await FactStore(pool).reject(ada.user.id, guess, Rejection.CONFIDENCE, write_key="c")
    (candidate,) = (await ada.http.get("/memory/candidates")).json()["items"]
    assert (candidate["value"], candidate["reason"]) == ("Perhaps coffee.", "confidence")


async def test_facts_are_read_in_pages(ada: Person) -> None:
    ids = [await write(ada, {"key": f"key-{i}", "value": "value"}) for i in range(3)]
    page = (await ada.http.get("/memory/facts?limit=2")).json()
    rest = (await ada.http.get(f"/memory/facts?limit=2&cursor={page['nextCursor']}")).json()
    assert [item["id"] for item in (*page["items"], *rest["items"])] == ids[::-1]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"value": "v"}, "key"),
        ({**TEA, "scope": "other"}, "scope"),
        ({**TEA, "owner_id": "x"}, "owner_id"),
        ({**TEA, "tags": ["x" * 99]}, "tags"),
    ],
)
async def test_what_is_no_fact_is_refused_by_field(
    ada: Person, body: dict[str, Any], field: str
) -> None:
    response = await ada.http.post("/memory/facts", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == field


async def test_reading_and_writing_memory_need_their_scopes(api: Api) -> None:
    reader = await api.person("reader", scopes=[Scope.MEMORY_READ])
    talker = await api.person("talker", scopes=[Scope.RUNS_READ])
    assert (await reader.http.get("/memory/facts")).status_code == 200
    assert (await reader.http.post("/memory/facts", json=TEA)).status_code == 403
    assert (await talker.http.get("/memory/facts")).status_code == 403


async def test_a_broken_index_is_a_problem_and_not_an_empty_list(ada: Person, pool: Pool) -> None:
    await write(ada, TEA)
    await pool.execute("ALTER TABLE facts RENAME COLUMN value_words TO broken")
    response = await ada.http.get("/memory/facts?query=tea")
    assert (response.status_code, response.json()["type"]) == (500, "/problems/internal")
