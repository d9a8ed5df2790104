"""Two users × every route × every verb: nobody ever gets anything of another's."""

import re
from typing import Any

import pytest

from adapters.postgres.pool import Pool
from api.app import PREFIX
from domain.identity import UserRole
from tests.fixtures_api import Api, Person, accepted

SECRET = "the blue heron nests at midnight"
OPEN = {"/health/live", "/health/ready"}
VERBS = ("get", "post", "put", "patch", "delete", "options", "head")


@pytest.fixture
async def alice(api: Api) -> Person:
    """Someone who has a run, a session, messages and an audit trail."""
    alice = await api.person("alice")
    await accepted(alice, run_id="alices-run", thread_id="alices-thread", text=SECRET)
    await alice.http.post("/runs/alices-run/interrupt", json={"reason": SECRET})
    return alice


async def routes(api: Api) -> list[tuple[str, str]]:
    """(verb, path below the prefix) of everything in the OpenAPI document."""
    document = (await api.client().get("/openapi.json")).json()
    return [
        (verb, path.removeprefix(PREFIX))
        for path, item in document["paths"].items()
        for verb in item
    ]


def filled(path: str, owner: Person) -> str:
    """A path with every parameter naming something of this owner's."""
    ids = {
        "run_id": "alices-run",
        "thread_id": "alices-thread",
        "name": "chat_default",
        "rollout_id": str(owner.user.id),
    }
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda found: ids[found.group(1)], path)


async def test_the_document_lists_every_route(api: Api) -> None:
    assert len(await routes(api)) >= 20


async def test_no_verb_of_any_route_opens_without_a_key(api: Api, alice: Person) -> None:
    nobody = api.client()
    for path in sorted({path for _, path in await routes(api)} - OPEN):
        for verb in VERBS:
            response = await nobody.request(verb, filled(path, alice))
            assert response.status_code in (401, 405), (verb, path, response.status_code)


@pytest.mark.parametrize("role", list(UserRole))
async def test_nothing_of_another_owner_leaves(api: Api, alice: Person, role: UserRole) -> None:
    mallory = await api.person("mallory", role)
    for path in sorted({path for _, path in await routes(api)}):
        for verb in VERBS:
            url = filled(path, alice)
            response = await mallory.http.request(verb, url, **_body(verb))
            assert SECRET not in response.text, (verb, path)
            assert "alices-" not in _without_echo(response.text, url), (verb, path)
            if "{run_id}" in path or "{thread_id}" in path:
                assert response.status_code in (404, 405), (verb, path, response.status_code)


async def test_what_mallory_tried_changed_nothing(api: Api, alice: Person) -> None:
    mallory = await api.person("mallory")
    before = (await alice.http.get("/runs/alices-run")).json()
    await mallory.http.post("/runs/alices-run/interrupt")
    assert (await alice.http.get("/runs/alices-run")).json() == before


async def test_the_same_ids_are_other_things_to_another_owner(api: Api, alice: Person) -> None:
    mallory = await api.person("mallory")
    run = await accepted(mallory, run_id="alices-run", thread_id="alices-thread", text="mine")
    assert run["status"] == "accepted"
    history = (await mallory.http.get("/sessions/alices-thread/history")).json()
    assert [message["content"] for message in history["messages"]] == ["mine"]


async def test_the_audit_trail_is_ones_own_unless_one_operates(
    api: Api, alice: Person, pool: Pool
) -> None:
    own = (await alice.http.get("/audit")).json()["items"]
    assert {entry["ownerId"] for entry in own} == {str(alice.user.id)}
    mallory = await api.person("mallory")
    assert (await mallory.http.get("/audit")).json()["items"] == []
    for owner in ("all", str(alice.user.id)):
        refused = await mallory.http.get("/audit", params={"owner": owner})
        assert refused.status_code == 403
    operator = await api.person("olga", UserRole.OPERATOR)
    seen = (await operator.http.get("/audit", params={"owner": "all"})).json()["items"]
    assert "alices-run" in {entry["runId"] for entry in seen}


def _body(verb: str) -> dict[str, Any]:
    return {"json": {"reason": "mine now"}} if verb in ("post", "put", "patch") else {}


def _without_echo(text: str, url: str) -> str:
    """Leaves out what merely repeats the path that was asked for."""
    return text.replace(url, "")
