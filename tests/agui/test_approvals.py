"""Questions to people, as the official clients of both generations see and answer them."""

import json
from typing import Any

import pytest

from tests.agui.conftest import App
from tests.agui.driver import Over
from tests.agui.wire import frames, of

FILE = '{"path":"a.txt","content":"new"}'
OVERWRITE = f"[[standin: call=write_file args={FILE}]] do it"


async def asked(app: App, text: str = OVERWRITE, **members: Any) -> tuple[Over, dict[str, Any]]:
    """A run that asks whether it may overwrite a file: what the client holds, and the question."""
    await (await app.ask("write file a.txt: old")).over()
    over = await (await app.ask(text, **members)).over()
    [finished] = over.callbacks
    assert finished[0] == "finished"
    last = frames(over.raw)[-1]
    assert (last["type"], last["outcome"]["type"]) == ("RUN_FINISHED", "interrupt")
    [question] = last["outcome"]["interrupts"]
    return over, question


def entry(question: dict[str, Any], payload: Any = None) -> dict[str, Any]:
    if payload is None:
        return {"interruptId": question["id"], "status": "cancelled"}
    return {"interruptId": question["id"], "status": "resolved", "payload": payload}


async def settled(app: App, over: Over) -> str:
    """The client holds what the server holds; the result of the call that was asked about."""
    assert over.status == 200, over.raw
    assert over.thrown is None
    assert over.messages == await app.history()
    found = frames(over.raw)
    assert of(found, "TOOL_CALL_START") == []
    [result] = of(found, "TOOL_CALL_RESULT")
    assert app.driver.complaints == []
    return result["content"]


ANSWERS = [
    ({"approved": True}, '"written"', "new"),
    ({"approved": True, "forSession": True}, '"written"', "new"),
    ({"approved": False, "reason": "It is precious."}, "It is precious.", "old"),
    ({"approved": True, "editedArgs": {"path": "a.txt", "content": "x"}}, '"written"', "x"),
    (None, '"denied"', "old"),
]


@pytest.mark.parametrize(
    ("payload", "told", "left"), ANSWERS, ids=["approve", "session", "deny", "edit", "cancel"]
)
async def test_an_answer_reaches_the_call_it_is_for(
    app: App, payload: Any, told: str, left: str
) -> None:
    over, question = await asked(app)
    pending = [m for m in over.messages if m["role"] == "tool"]
    assert question["toolCallId"] not in {m["toolCallId"] for m in pending}
    over = await (await app.resume(entry(question, payload), run_id="answer")).over()
    assert told in await settled(app, over)
    assert over.callbacks == [["finished", "success"]]
    assert over.sent["runId"] == "answer"
    read = await (await app.ask("read file a.txt")).over()
    [content] = [f["content"] for f in of(frames(read.raw), "TOOL_CALL_RESULT")]
    assert content == left


async def test_a_client_that_reloads_in_the_middle_sees_the_question_and_answers_it(
    app: App,
) -> None:
    _, question = await asked(app)
    history = (await app.person.http.get(f"/sessions/{app.thread_id}/history")).json()
    assert history["pendingInterrupts"] == [question]
    fresh = await (await app.ask("hello?", agent="reloaded")).over()
    last = frames(fresh.raw)[-1]
    assert last["outcome"]["interrupts"] == [question]
    over = await (await app.resume(entry(question, {"approved": True}), agent="reloaded")).over()
    assert '"written"' in await settled(app, over)


async def test_without_an_answer_the_question_is_stated_again(app: App) -> None:
    _, question = await asked(app)
    if app.generation == "0.0.59":
        over = await (await app.ask("never mind", agent="other")).over()
    else:
        over = await (await app.ask("never mind", agent="other", run_id="again")).over()
    found = frames(over.raw)
    assert [f["type"] for f in found if "MESSAGES" not in f["type"]] == [
        *("RUN_STARTED", "STATE_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"),
    ]
    assert found[-1]["outcome"]["interrupts"] == [question]
    assert "never mind" not in json.dumps(await app.history())


async def test_two_readers_see_one_question_and_the_second_answer_is_refused(app: App) -> None:
    _, question = await asked(app)
    second = await (await app.ask("and me?", agent="second")).over()
    assert frames(second.raw)[-1]["outcome"]["interrupts"] == [question]
    first = await (await app.resume(entry(question, {"approved": True}))).over()
    assert '"written"' in await settled(app, first)
    late = await (await app.resume(entry(question, {"approved": False}), agent="second")).over()
    assert late.status == 409
    assert "checkpoint-answered" in late.raw
