"""Questions to people over HTTP: the stream that ends with them, `resume`, and the inbox."""

import asyncio
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from domain.identity import UserRole
from tests.api.checks import check_stream
from tests.fixtures_api import Api, Person, run_input

pytestmark = pytest.mark.anyio

_OPERATOR = UserRole.OPERATOR
FILE = '{"path":"a.txt","content":"new"}'
OVERWRITE = f"[[standin: call=write_file args={FILE}]]"


@pytest.fixture
async def ada(served: Api) -> Person:
    return await served.person("ada")


async def posted(person: Person, text: str = "go on", **members: Any) -> list[dict[str, Any]]:
    """The frames of a request's stream, checked."""
    response = await person.http.post("/runs", json=run_input(text, **members))
    assert response.status_code == 200, response.text
    return check_stream(response.text)


async def interrupted(person: Person, thread: str, text: str = OVERWRITE) -> list[dict[str, Any]]:
    """A run that asks whether it may overwrite a.txt, and the interrupts it ends with."""
    await posted(person, "write file a.txt: old", thread_id=thread)
    frames = await posted(person, text, thread_id=thread)
    return open_of(frames)


def open_of(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert frames[-1]["type"] == "RUN_FINISHED"
    assert frames[-1]["outcome"]["type"] == "interrupt"
    return frames[-1]["outcome"]["interrupts"]


def resuming(interrupt: dict[str, Any], payload: Any = None) -> dict[str, Any]:
    status = "cancelled" if payload is None else "resolved"
    entry = {"interruptId": interrupt["id"], "status": status}
    return entry if payload is None else {**entry, "payload": payload}


async def resumed(
    person: Person, thread: str, *entries: dict[str, Any], **members: Any
) -> list[dict[str, Any]]:
    return await posted(person, thread_id=thread, resume=list(entries), **members)


def results(frames: list[dict[str, Any]]) -> dict[str, str]:
    return {f["toolCallId"]: f["content"] for f in frames if f["type"] == "TOOL_CALL_RESULT"}


async def read(person: Person, thread: str) -> str:
    """What is in a.txt, as the agent reads it."""
    frames = await posted(person, "read file a.txt", thread_id=thread)
    [content] = results(frames).values()
    return content


async def test_a_stream_ends_with_the_question_and_goes_on_with_the_answer(ada: Person) -> None:
    [asked] = await interrupted(ada, "t")
    assert (asked["reason"], asked["metadata"]["title"]) == ("tool_call", "Approve write_file")
    assert "overwritten" in asked["message"]
    assert "expiresAt" not in asked
    frames = await resumed(ada, "t", resuming(asked, {"approved": True}), run_id="second")
    types = [frame["type"] for frame in frames]
    assert types[:3] == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]
    assert frames[0]["runId"] == "second"
    assert list(results(frames)) == [asked["toolCallId"]]
    assert "TOOL_CALL_START" not in types
    assert frames[-1]["type"] == "RUN_FINISHED"
    assert "outcome" not in frames[-1]
    assert await read(ada, "t") == "new"


async def test_a_refusal_with_its_reason_is_what_the_model_reads(ada: Person) -> None:
    [asked] = await interrupted(ada, "t")
    denial = {"approved": False, "reason": "It is precious."}
    frames = await resumed(ada, "t", resuming(asked, denial))
    [content] = results(frames).values()
    assert "It is precious." in content
    assert await read(ada, "t") == "old"


async def test_giving_up_refuses_the_call(ada: Person) -> None:
    [asked] = await interrupted(ada, "t")
    frames = await resumed(ada, "t", resuming(asked))
    [content] = results(frames).values()
    assert '"denied"' in content
    assert await read(ada, "t") == "old"


async def test_edited_arguments_are_checked_before_they_count(ada: Person) -> None:
    [asked] = await interrupted(ada, "t")
    for edited, wrong in (({"path": "a.txt"}, "content"), ({"path": 1, "content": ""}, "path")):
        body = run_input("x", thread_id="t", resume=[resuming(asked, _edit(edited))])
        refused = await ada.http.post("/runs", json=body)
        assert refused.status_code == 422
        assert wrong in refused.json()["errors"][0]["message"]
    fine = {"path": "b.txt", "content": "edited"}
    frames = await resumed(ada, "t", resuming(asked, _edit(fine)))
    assert "b.txt" in next(iter(results(frames).values()))
    assert await read(ada, "t") == "old"


def _edit(arguments: dict[str, Any]) -> dict[str, Any]:
    return {"approved": True, "editedArgs": arguments}


async def test_a_request_without_answers_states_the_question_again(ada: Person) -> None:
    [asked] = await interrupted(ada, "t")
    before = (await ada.http.get("/sessions/t/history")).json()
    frames = await posted(ada, "anybody there?", thread_id="t", run_id="again")
    assert [frame["type"] for frame in frames] == [
        *("RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"),
        *("STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"),
    ]
    assert frames[0]["runId"] == "again"
    assert open_of(frames) == [asked]
    assert (await ada.http.get("/sessions/t/history")).json() == before
    assert (await ada.http.get("/runs/again")).status_code == 404
    json_only = {"accept": "application/json"}
    busy = await ada.http.post("/runs", json=run_input("x", thread_id="t"), headers=json_only)
    assert (busy.status_code, busy.json()["type"]) == (409, "/problems/session-busy")


async def test_a_client_that_reloads_finds_the_question_and_the_run(ada: Person) -> None:
    [asked] = await interrupted(ada, "t")
    history = (await ada.http.get("/sessions/t/history")).json()
    assert history["pendingInterrupts"] == [asked]
    run = (await ada.http.get(f"/runs/{history['activeRunId']}")).json()
    assert run["status"] == "waiting"
    listed = (await ada.http.get("/runs", params={"status": "waiting"})).json()["items"]
    assert [each["runId"] for each in listed] == [run["runId"]]
    done = {"last-event-id": str(run["lastEventId"])}
    rest = await ada.http.get(f"/runs/{run['runId']}/events", headers=done)
    assert rest.status_code == 204


async def test_each_segment_can_be_read_again_whole_and_from_anywhere(ada: Person) -> None:
    await posted(ada, "write file a.txt: old", thread_id="t")
    first = await ada.http.post("/runs", json=run_input(OVERWRITE, thread_id="t", run_id="one"))
    [asked] = open_of(check_stream(first.text))
    body = run_input("x", thread_id="t", run_id="two", resume=[resuming(asked, {"approved": True})])
    second = await ada.http.post("/runs", json=body)
    for run_id, response in (("one", first), ("two", second)):
        events = numbered(response.text)
        assert numbered((await ada.http.get(f"/runs/{run_id}/events")).text) == events
        for place, event in enumerate(events):
            cursor = {"last-event-id": event.split("\n")[0].removeprefix("id: ")}
            rest = await ada.http.get(f"/runs/{run_id}/events", headers=cursor)
            assert numbered(rest.text) == events[place + 1 :]
    attached = await ada.http.post("/runs", json=body)
    assert numbered(attached.text) == numbered(second.text)
    other = {**body, "resume": [resuming(asked, {"approved": False})]}
    assert (await ada.http.post("/runs", json=other)).json()["type"] == "/problems/run-conflict"
    taken = run_input("hello", thread_id="u", run_id="two")
    assert (await ada.http.post("/runs", json=taken)).status_code == 409


def numbered(body: str) -> list[str]:
    """The events that have an id: what is the same for every reader."""
    return [event for event in body.split("\n\n") if event.startswith("id: ")]


async def test_the_inbox_answers_across_runs(ada: Person) -> None:
    [asked] = await interrupted(ada, "t")
    [listed] = (await ada.http.get("/checkpoints")).json()["items"]
    assert (listed["id"], listed["tool"], listed["state"]) == (asked["id"], "write_file", "open")
    assert listed["arguments"] == {"path": "a.txt", "content": "new"}
    history = (await ada.http.get("/sessions/t/history")).json()
    answered = await ada.http.post(f"/checkpoints/{asked['id']}", json={"action": "approve"})
    assert answered.status_code == 200
    assert (answered.json()["state"], answered.json()["via"]) == ("answered", "api")
    again = await ada.http.post(f"/checkpoints/{asked['id']}", json={"action": "approve"})
    assert again.status_code == 200
    other = await ada.http.post(f"/checkpoints/{asked['id']}", json={"action": "deny"})
    assert (other.status_code, other.json()["type"]) == (409, "/problems/checkpoint-answered")
    assert other.json()["action"] == "approve"
    assert other.json()["answeredBy"] == str(ada.user.id)
    segment = f"seg_{(await _key(ada, history['activeRunId']))}_1"
    frames = check_stream((await ada.http.get(f"/runs/{segment}/events")).text)
    assert frames[0]["runId"] == segment
    assert (await ada.http.get("/checkpoints")).json()["items"] == []
    assert len((await ada.http.get("/checkpoints?state=all")).json()["items"]) == 1


async def _key(person: Person, run_id: str) -> str:
    workflow = (await person.http.get(f"/runs/{run_id}")).json()["workflowId"]
    return workflow.removeprefix("run/").replace("-", "")


async def test_five_questions_are_answered_in_any_order_by_three_clients(ada: Person) -> None:
    calls = " ".join(f'call=write_file args={{"path":"a.txt","content":"{n}"}}' for n in range(5))
    asked = await interrupted(ada, "t", f"[[standin: {calls}]]")
    assert len(asked) == 5
    Random(3).shuffle(asked)
    frames = await resumed(ada, "t", resuming(asked[0], {"approved": False, "reason": "zero"}))
    assert len(open_of(frames)) == 4
    for one in asked[1:3]:
        body = {"action": "deny", "input": f"reason of {one['id']}"}
        assert (await ada.http.post(f"/checkpoints/{one['id']}", json=body)).status_code == 200
    last = [resuming(one, {"approved": one is asked[4]}) for one in asked[3:]]
    frames = await resumed(ada, "t", *last)
    assert frames[-1]["type"] == "RUN_FINISHED"
    everything = (await ada.http.get("/sessions/t/history")).json()["messages"]
    told = {m["toolCallId"]: m["content"] for m in everything if m["role"] == "tool"}
    assert "zero" in told[asked[0]["toolCallId"]]
    for one in asked[1:3]:
        assert one["id"] in told[one["toolCallId"]]
    assert '"denied"' in told[asked[3]["toolCallId"]]
    assert '"written"' in told[asked[4]["toolCallId"]]


async def test_of_fifty_answers_at_once_one_counts_and_all_others_are_told_which(
    served: Api, ada: Person
) -> None:
    operators = [await served.person(f"op{n}", role=_OPERATOR) for n in range(2)]
    [asked] = await interrupted(ada, "t")

    async def answer(number: int) -> Any:
        who, action = (ada, *operators)[number % 3], ("approve", "deny")[number % 2]
        owner = {} if who is ada else {"owner_id": str(ada.user.id)}
        return await who.http.post(
            f"/checkpoints/{asked['id']}", json={"action": action}, params=owner
        )

    answers = await asyncio.gather(*(answer(number) for number in range(50)))
    won = {(a.json()["action"], a.json()["answeredBy"]) for a in answers if a.status_code == 200}
    assert len(won) == 1
    lost = [a for a in answers if a.status_code != 200]
    assert len(lost) >= 40  # the winner's own other answers are no conflict
    assert {a.status_code for a in lost} == {409}
    told = {(a.json()["action"], a.json()["answeredBy"]) for a in lost}
    assert told == won


async def test_what_can_not_be_an_answer_is_refused_by_name(ada: Person) -> None:
    [asked] = await interrupted(ada, "t")
    url = f"/checkpoints/{asked['id']}"
    refused = await ada.http.post(url, json={"action": "maybe"})
    assert refused.json()["errors"][0]["field"] == "action"
    refused = await ada.http.post(url, json={"action": "edit", "input": "text"})
    assert refused.json()["errors"][0]["field"] == "input"
    assert (await ada.http.get(f"/checkpoints/{uuid4()}")).status_code == 404
    for entry, field in (
        ({"interruptId": "x", "status": "resolved"}, "resume.0.interruptId"),
        ({"interruptId": asked["id"], "status": "maybe"}, "resume.0.status"),
        (resuming(asked, {"approved": "yes"}), "resume.0.payload.approved"),
        (resuming(asked, {"approved": 1}), "resume.0.payload.approved"),
        (resuming(asked, {"approved": True, "more": 1}), "resume.0.payload.more"),
    ):
        body = run_input("x", thread_id="t", resume=[entry])
        assert (await ada.http.post("/runs", json=body)).json()["errors"][0]["field"] == field
    body = run_input("x", thread_id="u", resume=[resuming(asked, {"approved": True})])
    assert (await ada.http.post("/runs", json=body)).status_code == 422
    unknown = {"interruptId": str(uuid4()), "status": "cancelled"}
    body = run_input("x", thread_id="t", resume=[resuming(asked, {"approved": True}), unknown])
    assert (await ada.http.post("/runs", json=body)).status_code == 404
    assert (await ada.http.get(url)).json()["state"] == "open"


async def test_a_question_of_somebody_else_does_not_exist(served: Api, ada: Person) -> None:
    [asked] = await interrupted(ada, "t")
    eve = await served.person("eve")
    url = f"/checkpoints/{asked['id']}"
    assert (await eve.http.get(url)).status_code == 404
    assert (await eve.http.post(url, json={"action": "approve"})).status_code == 404
    assert (await eve.http.get(url, params={"owner_id": str(ada.user.id)})).status_code == 403
    body = run_input("x", thread_id="t", resume=[resuming(asked, {"approved": True})])
    assert (await eve.http.post("/runs", json=body)).status_code == 404
    assert (await eve.http.get("/checkpoints?state=all")).json()["items"] == []


async def test_an_interrupt_ends_the_question(ada: Person) -> None:
    [asked] = await interrupted(ada, "t")
    history = (await ada.http.get("/sessions/t/history")).json()
    run = history["activeRunId"]
    assert (await ada.http.post(f"/runs/{run}/interrupt")).json()["interrupted"] is True
    while (await ada.http.get(f"/runs/{run}")).json()["status"] == "waiting":
        await asyncio.sleep(0.05)
    late = await ada.http.post(f"/checkpoints/{asked['id']}", json={"action": "approve"})
    assert (late.status_code, late.json()["type"]) == (409, "/problems/checkpoint-expired")
    assert (await ada.http.get("/sessions/t/history")).json()["pendingInterrupts"] == []
    assert await read(ada, "t") == "old"


async def test_a_question_of_the_model_is_answered_with_words(ada: Person) -> None:
    text = '[[standin: call=ask_clarification args={"question":"Which?","options":["red","blue"]}]]'
    frames = await posted(ada, text, thread_id="t")
    [asked] = open_of(frames)
    assert (asked["reason"], asked["message"]) == ("input_required", "Which?")
    frames = await resumed(ada, "t", resuming(asked, {"action": "option_2"}))
    assert list(results(frames).values()) == ['{"status": "answered", "answer": "blue"}']
    [asked] = open_of(await posted(ada, text, thread_id="t"))
    frames = await resumed(ada, "t", resuming(asked, "green, please"))
    assert "green, please" in next(iter(results(frames).values()))


async def test_a_secret_is_told_to_nobody(served: Api, ada: Person) -> None:
    needs = '{"name":"api_key","why":"to publish","kind":"secret","for_tool":"write_file"}'
    [asked] = open_of(await posted(ada, f"[[standin: call=request_input args={needs}]]"))
    answer = {"action": "answer", "input": "s3cret-c4nary"}
    answered = await ada.http.post(f"/checkpoints/{asked['id']}", json=answer)
    assert answered.status_code == 200
    assert "s3cret" not in answered.text
    run = answered.json()["runId"]
    while (await ada.http.get(f"/runs/{run}")).json()["status"] != "completed":
        await asyncio.sleep(0.05)
    history = await ada.http.get("/sessions/thread/history")
    assert '\\"status\\": \\"stored\\"' in history.text
    assert "s3cret" not in history.text + (await ada.http.get("/audit")).text
    tables = await served.pool.fetch(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    )
    for table in tables:
        found = f"SELECT count(*) FROM {table['table_name']} AS t WHERE t::text LIKE '%s3cret%'"  # noqa: S608
        assert await served.pool.fetchval(found) == 0, table["table_name"]


async def test_texts_that_no_database_takes_are_taken_all_the_same(ada: Person) -> None:
    bad = "\\u0000\\ud800"  # as a model writes them: escaped
    ask = f'[[standin: call=ask_clarification args={{"question":"Which {bad}?"}}]]'
    [asked] = open_of(await posted(ada, ask, thread_id="q"))
    assert "\ufffd" in asked["message"]
    answer = {"action": "answer", "input": "green \x00"}
    assert (await ada.http.post(f"/checkpoints/{asked['id']}", json=answer)).status_code == 200
    [asked] = await interrupted(ada, "t")
    edited = _edit({"path": "b.txt", "content": "nul \x00"})
    frames = await resumed(ada, "t", resuming(asked, edited))
    assert '"written"' in next(iter(results(frames).values()))


async def test_a_supervisor_s_question_may_hold_anything_but_too_much(ada: Person) -> None:
    slow = "[[standin: tokens=40 delay_ms=30 flush call=list_files args={}]]"
    json_only = {"accept": "application/json"}
    body = run_input(slow, run_id="r", thread_id="t")
    await ada.http.post("/runs", json=body, headers=json_only)
    question = {"scenario": "milestone", "body": "Go on?", "context": {"a\x00": ["\x00", {"b": 1}]}}
    raised = await ada.http.post("/runs/r/checkpoints", json=question)
    assert (raised.status_code, raised.json()["state"]) == (201, "queued")
    for wrong, field in (
        ({**question, "context": {"a": "x" * 60_000}}, "context"),
        ({**question, "scenario": "high_risk"}, "scenario"),
        (
            {**question, "scenario": "low_quality", "actions": [{"id": "a", "label": "A"}]},
            "actions",
        ),
        ({**question, "body": ""}, "body"),
    ):
        refused = await ada.http.post("/runs/r/checkpoints", json=wrong)
        assert refused.json()["errors"][0]["field"] == field
    await ada.http.post("/runs/r/interrupt")
    while (await ada.http.get("/runs/r")).json()["status"] not in ("interrupted", "completed"):
        await asyncio.sleep(0.05)
    late = await ada.http.post("/runs/r/checkpoints", json=question)
    assert (late.status_code, late.json()["type"]) == (409, "/problems/checkpoint-expired")
