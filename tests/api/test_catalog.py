"""Profiles, models, tools, rollouts, capabilities."""

from uuid import uuid4

from ag_ui.core.capabilities import AgentCapabilities

from domain.identity import DEFAULT_SCOPES, UserRole
from tests.fixtures_api import Api, Person

HALF = {"profile": "chat_default", "percentage": 50}


async def test_users_see_the_profiles_that_talk_to_them_and_operators_all(
    api: Api, alice: Person
) -> None:
    mine = (await alice.http.get("/profiles")).json()
    assert [profile["name"] for profile in mine] == ["chat_default"]
    assert (await alice.http.get("/profiles/chat_default")).json() == mine[0]
    assert mine[0]["executor"] == "worker"
    assert mine[0]["history_policy"]["n"] == 20
    assert (await alice.http.get("/profiles/subtask_default")).status_code == 404
    olga = await api.person("olga", UserRole.OPERATOR)
    every = {profile["name"] for profile in (await olga.http.get("/profiles")).json()}
    assert every == {"automation_memory_default", "chat_default", "subtask_default"}


async def test_models_are_those_that_your_profiles_call(api: Api, alice: Person) -> None:
    models = {m["name"]: m["profiles"] for m in (await alice.http.get("/models")).json()}
    assert models["qwen3.5-30b-a3b"] == ["chat_default"]
    olga = await api.person("olga", UserRole.OPERATOR)
    assert len((await olga.http.get("/models")).json()) > len(models)


async def test_tools_are_listed_with_their_schemas(alice: Person) -> None:
    tools = {tool["name"]: tool for tool in (await alice.http.get("/tools")).json()}
    assert {"memory_search", "memory_write", "write_file"} <= tools.keys()
    assert tools["memory_search"]["parameters"]["properties"]["query"]["type"] == "string"
    assert tools["write_file"]["kind"] == "write"
    assert all(tool["description"] for tool in tools.values())


async def test_capabilities_have_the_shape_of_ag_ui_and_promise_what_there_is(
    alice: Person,
) -> None:
    body = (await alice.http.get("/capabilities")).json()
    known = AgentCapabilities.model_validate(body)
    assert known.model_dump(mode="json", by_alias=True, exclude_none=True) == body
    assert body["transport"] == {"streaming": True, "resumable": True}
    assert body["tools"]["clientProvided"] is False
    assert body["humanInTheLoop"]["interrupts"] is True
    listed = {tool["name"] for tool in (await alice.http.get("/tools")).json()}
    assert {tool["name"] for tool in body["tools"]["items"]} == listed


async def test_rollouts_belong_to_operators(api: Api, alice: Person) -> None:
    rule = str(uuid4())
    for response in (
        await alice.http.get("/rollouts"),
        await alice.http.post("/rollouts", json=HALF),
        await alice.http.delete(f"/rollouts/{rule}"),
    ):
        assert (response.status_code, response.json()["type"]) == (403, "/problems/forbidden")
    unscoped = await api.person("oscar", UserRole.OPERATOR, scopes=DEFAULT_SCOPES)
    assert (await unscoped.http.get("/rollouts")).json() == []
    assert (await unscoped.http.post("/rollouts", json=HALF)).status_code == 403


async def test_a_rule_is_added_listed_by_priority_taken_back_and_accounted_for(api: Api) -> None:
    olga = await api.person("olga", UserRole.OPERATOR)
    late = (await olga.http.post("/rollouts", json=HALF)).json()
    response = await olga.http.post("/rollouts", json={**HALF, "priority": 1, "percentage": 12.5})
    assert response.status_code == 201
    early = response.json()
    assert (early["percentage"], early["createdBy"]) == (12.5, str(olga.user.id))
    listed = (await olga.http.get("/rollouts")).json()
    assert [rule["id"] for rule in listed] == [early["id"], late["id"]]
    gone = await olga.http.delete(f"/rollouts/{late['id']}")
    assert (gone.status_code, gone.content) == (204, b"")
    assert (await olga.http.delete(f"/rollouts/{late['id']}")).status_code == 404
    assert (await olga.http.get("/rollouts")).json() == [early]
    kinds = [row["kind"] for row in (await olga.http.get("/audit")).json()["items"]]
    assert kinds == ["rollout_removed", "rollout_added", "rollout_added"]


async def test_a_rule_that_makes_no_sense_is_refused_by_field(api: Api) -> None:
    olga = await api.person("olga", UserRole.OPERATOR)
    for field, members in (
        ("profile", {"profile": "no_such_profile"}),
        ("profile", {"profile": "a\x00"}),
        ("percentage", {"percentage": 101}),
        ("percentage", {"percentage": -1}),
        ("owner_id", {"owner_id": "me"}),
        ("priority", {"priority": 2_000_000}),
        ("task_type", {"task_type": "research"}),
        ("share", {"share": 5}),
    ):
        response = await olga.http.post("/rollouts", json={**HALF, **members})
        named = [error["field"] for error in response.json()["errors"]]
        assert (response.status_code, named) == (422, [field])
    headers = {"content-type": "application/json"}
    nan = b'{"profile": "chat_default", "percentage": NaN}'
    assert (await olga.http.post("/rollouts", content=nan, headers=headers)).status_code == 422
    assert (await olga.http.delete("/rollouts/not-an-id")).status_code == 422
    assert (await olga.http.get("/rollouts")).json() == []
