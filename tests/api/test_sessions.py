"""Sessions as a client lists and loads them."""

from adapters.postgres.pool import Pool
from adapters.postgres.runs import RunStore
from domain.events import SPAN
from domain.identity import Scope
from domain.messages import Message, Role
from domain.runs import NewRun, RunRequest
from tests.fixtures_api import Api, Person, accepted, parse, run_input


async def _hidden(pool: Pool, person: Person, *, thread_id: str) -> None:
    """A run whose message automation wrote and no chat shows."""
    message = Message("secret", Role.USER, "between us machines", hidden_from_user=True)
    new = NewRun(person.user.id, thread_id, "hidden", RunRequest(), (message,))
    await RunStore(pool).accept(new)


async def test_a_conversation_is_loaded_as_ag_ui_has_it(served: Api) -> None:
    ann = await served.person("ann")
    text = "[[standin: turn=1 call=memory_search]] look"
    body = run_input(text, thread_id="t", run_id="r", message_id="m")
    last = parse((await ann.http.post("/runs", json=body)).text)[-1]
    history = (await ann.http.get("/sessions/t/history")).json()
    asked, call, result, answer = history["messages"]
    assert asked == {"id": "m", "role": "user", "content": text}
    assert call["toolCalls"][0]["function"]["name"] == "memory_search"
    assert (result["role"], result["toolCallId"]) == ("tool", call["toolCalls"][0]["id"])
    assert answer["role"] == "assistant"
    assert answer["content"]
    assert history["activeRunId"] is None
    assert history["lastEventId"] == last.id
    assert (history["pendingInterrupts"], history["state"]) == ([], {})


async def test_history_says_which_run_is_at_work_and_where_to_go_on(alice: Person) -> None:
    await accepted(alice, run_id="r", thread_id="t", text="hello")
    history = (await alice.http.get("/sessions/t/history")).json()
    assert history["activeRunId"] == "r"
    assert history["lastEventId"] // SPAN == 1
    assert [message["content"] for message in history["messages"]] == ["hello"]


async def test_hidden_messages_are_shown_only_on_request_and_only_to_who_may_audit(
    api: Api, alice: Person, pool: Pool
) -> None:
    await _hidden(pool, alice, thread_id="t")
    plain = (await alice.http.get("/sessions/t/history")).json()
    assert plain["messages"] == []
    asked = (await alice.http.get("/sessions/t/history?include_hidden=true")).json()
    assert [message["content"] for message in asked["messages"]] == ["between us machines"]
    reader = await api.person("reader", scopes=[Scope.RUNS_READ])
    await _hidden(pool, reader, thread_id="t")
    refused = await reader.http.get("/sessions/t/history?include_hidden=true")
    assert (refused.status_code, refused.json()["type"]) == (403, "/problems/forbidden")
    assert "machines" not in refused.text
    assert (await reader.http.get("/sessions/t/history")).json()["messages"] == []


async def test_sessions_are_listed_latest_activity_first_and_in_pages(alice: Person) -> None:
    for place in range(3):
        await accepted(alice, thread_id=f"t{place}")
    first = (await alice.http.get("/sessions?limit=2")).json()
    assert [session["threadId"] for session in first["items"]] == ["t2", "t1"]
    params = {"limit": 2, "cursor": first["nextCursor"]}
    second = (await alice.http.get("/sessions", params=params)).json()
    assert [session["threadId"] for session in second["items"]] == ["t0"]
    assert second["nextCursor"] is None
    assert (await alice.http.get("/sessions?type=automation")).json()["items"] == []


async def test_a_session_is_found_by_the_id_its_client_chose(alice: Person) -> None:
    await accepted(alice, thread_id="of/two parts")
    session = (await alice.http.get("/sessions/of%2Ftwo%20parts")).json()
    assert (session["threadId"], session["type"], session["messages"]) == (
        *("of/two parts", "chat", 1),
    )
    assert (await alice.http.get("/sessions/of%2Ftwo%20parts/history")).status_code == 200
