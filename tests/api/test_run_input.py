"""What POST /runs reads, what it refuses, and that it names what it refuses."""

import json
from typing import Any

from adapters.postgres.pool import Pool
from tests.fixtures_api import Api, Person, parse, run_input

JSON = {"content-type": "application/json", "accept": "application/json"}
USER = {"id": "m1", "role": "user", "content": "hello"}


def _json(value: Any) -> bytes:
    """With lone surrogates and NUL as JSON writes them."""
    return json.dumps(value).encode()


def _message(**members: Any) -> dict[str, Any]:
    return {"messages": [{**USER, **members}]}


def _varve(**options: Any) -> dict[str, Any]:
    return {"forwardedProps": {"varve": options}}


REFUSED: list[tuple[str, dict[str, Any]]] = [
    # What is not implemented is refused by its name, not ignored.
    ("forwardedProps.varve.on_busy", _varve(on_busy="push")),
    ("forwardedProps.varve.webhook", _varve(webhook="https://example.com")),
    ("forwardedProps.varve.webhook.url", _varve(webhook={"url": "ftp://example.com"})),
    ("forwardedProps.varve.webhook", _varve(webhook={"url": "https://example.com"})),
    ("forwardedProps.varve.wait", _varve(wait=True)),
    ("forwardedProps.varve.resume", _varve(resume=[])),
    ("forwardedProps.varve", {"forwardedProps": {"varve": "chat_default"}}),
    ("forwardedProps.varve.profile", _varve(profile="no_such_profile")),
    ("forwardedProps.varve.profile", _varve(profile=7)),
    ("forwardedProps.varve.profile", _varve(profile="subtask_default")),  # not for users
    ("forwardedProps.varve.tools", _varve(tools="memory_search")),
    ("forwardedProps.varve.tools.1", _varve(tools=["memory_search", ""])),
    ("tools", {"tools": [{"name": "confirm", "description": "", "parameters": {}}]}),
    ("resume.0.interruptId", {"resume": [{"interruptId": "i", "status": "resolved"}]}),
    # Parts that are no text.
    ("messages.0.content.0", _message(content=[{"type": "image", "source": {}}])),
    (
        "messages.0.content.1",
        _message(content=[{"type": "text", "text": "see"}, {"type": "binary", "mimeType": "a/b"}]),
    ),
    ("messages.0.content.0", _message(content=["bare"])),
    ("messages.0.content.0", _message(content=[{"type": "text"}])),
    ("messages.0.content", _message(content={"type": "text", "text": "x"})),
    ("messages.0.content", _message(content=None)),
    ("messages.0.content", _message(content=" \n")),
    ("messages.0.content", _message(content=[])),
    ("messages.0.content", _message(content="x" * 200_001)),
    # Messages of the wrong kind, or in the wrong place.
    ("messages", {"messages": []}),
    ("messages", {"messages": None}),
    ("messages", {"messages": "hello"}),
    ("messages.0", {"messages": ["hello"]}),
    ("messages", _message(role="assistant")),
    ("messages", {"messages": [USER, {"id": "m2", "role": "tool", "content": "x"}]}),
    ("messages", {"messages": [USER, USER]}),
    ("messages", {"messages": [{**USER, "id": f"m{i}"} for i in range(51)]}),
    ("messages.0.role", {"messages": [{"id": "m1", "content": "hello"}]}),
    ("messages.0.id", _message(id="")),
    ("messages.0.id", _message(id=None)),
    ("messages.0.id", _message(id="m" * 201)),
    ("messages.0.id", _message(id="m\x00")),
    ("messages.0.id", _message(id=5)),
    # Ids.
    ("threadId", {"threadId": ""}),
    ("threadId", {"threadId": "t" * 201}),
    ("threadId", {"threadId": "t\x00"}),
    ("threadId", {"threadId": None}),
    ("threadId", {"threadId": ["t"]}),
    ("threadId", {"threadId": "t\ud800"}),
    ("runId", {"runId": ""}),
    ("runId", {"runId": "r" * 201}),
    ("runId", {"runId": "r\x00"}),
    ("runId", {"runId": 1}),
    ("runId", {"runId": "\udfff"}),
    # Context and the rest.
    ("context.0.value", {"context": [{"description": "page"}]}),
    ("context.0.value", {"context": [{"description": "d", "value": "x" * 20_001}]}),
    ("context.0", {"context": ["page"]}),
    ("context", {"context": [{"description": "d", "value": "v"}] * 51}),
    ("tools", {"tools": "all"}),
    ("resume", {"resume": "yes"}),
    ("protocolVersion", {"protocolVersion": 1.0}),
    ("protocolVersion", {"protocolVersion": "1" * 201}),
]


async def test_what_cannot_be_done_is_refused_by_name(api: Api, alice: Person, pool: Pool) -> None:
    for place, (field, members) in enumerate(REFUSED):
        body = {**run_input(run_id=f"r{place}", thread_id=f"t{place}"), **members}
        response = await alice.http.post("/runs", content=_json(body), headers=JSON)
        named = [error["field"] for error in response.json().get("errors", ())]
        assert (response.status_code, named[:1]) == (422, [field]), (field, response.text)
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["type"] == "/problems/invalid-request"
    assert await pool.fetchval("SELECT count(*) FROM runs") == 0
    assert await pool.fetchval("SELECT count(*) FROM sessions") == 0


NO_INPUT = (
    b"",
    b"{",
    b"null",
    b"[]",
    b'"hello"',
    b"\xff\xfe",
    b'{"threadId": NaN}',
    b'{"threadId": ' + b"9" * 5_000 + b"}",
    b'{"threadId": "t", "state": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    b"--x\r\ncontent-disposition: form-data\r\n\r\n\r\n--x--",
)


async def test_a_body_that_is_no_run_input_is_a_problem_of_the_caller(alice: Person) -> None:
    for content in NO_INPUT:
        response = await alice.http.post("/runs", content=content, headers=JSON)
        assert response.status_code in (400, 422), (content[:50], response.text)
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["detail"]


async def test_another_content_type_is_refused(alice: Person) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {"content-type": kind}
        response = await alice.http.post("/runs", content=_json(run_input()), headers=headers)
        assert response.status_code == 422, kind


async def test_what_older_and_newer_clients_send_along_is_read_over(alice: Person) -> None:
    body = run_input(
        thread_id="odd",
        protocolVersion="1.0",
        parentRunId="r0",
        somethingNew={"a": [1]},
        state=json.loads("[" * 500 + "]" * 500),
        forwardedProps={"theirs": True, "varve": None},
        tools=None,
        context=None,
        resume=None,
    )
    body["messages"] = [
        {"id": "s", "role": "system", "content": "You are a pirate."},
        {"id": "d", "role": "developer", "content": [1, 2]},
        {"id": "a", "role": "assistant", "toolCalls": "?"},
        {**USER, "name": "Ada", "content": [{"type": "text", "text": "a"}, _text("b")]},
    ]
    response = await alice.http.post("/runs", content=_json(body), headers=JSON)
    assert response.status_code == 202, response.text
    history = (await alice.http.get("/sessions/odd/history")).json()
    assert history["messages"] == [{"id": "m1", "role": "user", "content": "a\nb"}]


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


async def test_characters_that_no_store_takes_are_replaced_everywhere(alice: Person) -> None:
    bad = "a\x00b\ud800c"
    body = run_input(
        thread_id="bad",
        context=[{"description": bad, "value": bad}],
        forwardedProps={"varve": {"tools": ["memory\x00"]}, bad: bad},
        protocolVersion="1.0\x00",
        state={bad: bad},
    )
    body["messages"] = [{**USER, "content": bad}]
    response = await alice.http.post("/runs", content=_json(body), headers=JSON)
    assert response.status_code == 202, response.text
    history = (await alice.http.get("/sessions/bad/history")).json()
    assert history["messages"][0]["content"] == "a\ufffdb\ufffdc"


async def test_a_run_of_such_characters_and_longest_ids_ends_like_any_other(served: Api) -> None:
    ann = await served.person("ann")
    odd, bad = "💧" * 200, "a\x00b\ud800c"
    body = run_input(run_id=odd, thread_id=odd, message_id=odd, protocolVersion="1.0")
    body["messages"][0]["content"] = bad
    body["context"] = [{"description": bad, "value": bad}]
    body["forwardedProps"] = {"varve": {"tools": ["memory\x00"]}}
    response = await ann.http.post("/runs", content=_json(body), headers={**JSON, "accept": "*/*"})
    last = parse(response.text)[-1].frame
    assert (last["type"], last["runId"], last["threadId"]) == ("RUN_FINISHED", odd, odd)


async def test_ids_are_kept_as_they_are_however_odd(alice: Person) -> None:
    for place, odd in enumerate(("💧" * 200, "a b/c?d#e%2F", "../..", "\u2028\x7f\n", "é\u0301")):
        body = run_input(run_id=odd, thread_id=odd, message_id=f"{place}-{odd}"[:200])
        response = await alice.http.post("/runs", content=_json(body), headers=JSON)
        assert response.status_code == 202, response.text
        assert (response.json()["runId"], response.json()["threadId"]) == (odd, odd)
