"""The audit trail over HTTP: what was refused and by which list, and who may look at whose."""

from domain.identity import UserRole
from tests.fixtures_api import Api, Person, accepted, run_input

WRITE = '[[standin: call=write_file args={"path":"a","content":"b"}]]'


async def test_a_denied_call_is_found_with_the_list_that_refused_it(served: Api) -> None:
    ann = await served.person("ann")
    declared = {"varve": {"tools": ["memory_search"]}}
    body = run_input(WRITE, run_id="r", thread_id="t", forwardedProps=declared)
    stream = (await ann.http.post("/runs", json=body)).text
    assert '\\"status\\":' in stream
    [row] = (await ann.http.get("/audit?kind=tool_denied")).json()["items"]
    assert row["detail"]["refused_by"] == "declared"
    assert (row["tool"], row["runId"], row["threadId"]) == ("write_file", "r", "t")
    assert row["ownerId"] == str(ann.user.id)
    assert "content" not in row["detail"]
    await ann.http.post("/runs", json=run_input(WRITE, run_id="r2", thread_id="t2"))
    for query, expected in {
        "run_id=r&tool=write_file": ["tool_denied"],
        "run_id=r2&tool=write_file": ["tool_called"],
        "tool=write_file": ["tool_called", "tool_denied"],
        "tool=memory_search": [],
        "kind=run_completed": ["run_completed", "run_completed"],
        "run_id=r&kind=run_completed&profile=chat_default": ["run_completed"],
        "profile=special": [],
        "executor=worker&tool=write_file&run_id=r2": ["tool_called"],
        "executor=memory": [],
        "origin=automation": [],
        "origin=chat&kind=tool_called": ["tool_called"],
    }.items():
        rows = (await ann.http.get(f"/audit?{query}")).json()["items"]
        assert [row["kind"] for row in rows] == expected, query


async def test_the_trail_is_read_in_pages_newest_first(api: Api) -> None:
    olga = await api.person("olga", UserRole.OPERATOR)
    for share in range(3):
        await olga.http.post("/rollouts", json={"profile": "chat_default", "percentage": share})
    first = (await olga.http.get("/audit?limit=2")).json()
    params = {"limit": 2, "cursor": first["nextCursor"]}
    second = (await olga.http.get("/audit", params=params)).json()
    shares = [row["detail"]["percentage"] for row in first["items"] + second["items"]]
    assert (shares, second["nextCursor"]) == ([2, 1, 0], None)


async def test_users_see_their_own_trail_and_operators_everyones(api: Api, alice: Person) -> None:
    bob, olga = await api.person("bob"), await api.person("olga", UserRole.OPERATOR)
    for person in (alice, bob):
        run = await accepted(person, thread_id="t")
        await person.http.post(f"/runs/{run['runId']}/interrupt")
    mine = (await alice.http.get("/audit")).json()["items"]
    assert {row["ownerId"] for row in mine} == {str(alice.user.id)}
    assert (await alice.http.get(f"/audit?owner={alice.user.id}")).json()["items"] == mine
    for other in (bob.user.id, "all", "nonsense", ""):
        response = await alice.http.get(f"/audit?owner={other}")
        assert (response.status_code, response.json()["type"]) == (403, "/problems/forbidden")
    assert (await olga.http.get("/audit")).json()["items"] == []
    assert (await olga.http.get(f"/audit?owner={alice.user.id}")).json()["items"] == mine
    everyone = (await olga.http.get("/audit?owner=all")).json()["items"]
    assert {row["ownerId"] for row in everyone} == {str(alice.user.id), str(bob.user.id)}
    unknown = await olga.http.get("/audit?owner=nonsense")
    assert (unknown.status_code, unknown.json()["errors"][0]["field"]) == (422, "owner")
