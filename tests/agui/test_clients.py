"""What the official AG-UI clients make of our runs, in the generations that are in use."""

import json
from typing import Any

from tests.agui.conftest import App
from tests.agui.driver import Over
from tests.agui.wire import frames, of


async def settled(app: App, over: Over) -> list[dict[str, Any]]:
    """The frames of a run after which the client holds what the server holds."""
    assert over.status == 200
    assert over.messages == await app.history()
    return frames(over.raw)


def finished(outcome: str = "success") -> list[list[str | None]]:
    return [["finished", outcome]]


async def test_a_plain_answer_arrives_as_it_is_stored(app: App) -> None:
    run = await app.ask("hello there", message_id="mine", run_id="my-run")
    over = await run.over()
    found = await settled(app, over)
    assert over.callbacks == finished()
    assert over.thrown is None
    question, answer = over.messages
    assert question == {"id": "mine", "role": "user", "content": "hello there"}
    assert "hello there" in answer["content"]
    assert {frame["runId"] for frame in found if "runId" in frame} == {"my-run"}
    assert app.driver.complaints == []


async def test_only_a_client_of_1_0_says_so(app: App) -> None:
    over = await (await app.ask("hello")).over()
    assert over.sent.get("protocolVersion") == ("1.0" if app.generation == "1.0.0" else None)


async def test_a_tool_call_arrives_with_its_result(app: App) -> None:
    over = await (await app.ask("remember that my name is Ada")).over()
    found = await settled(app, over)
    assert over.callbacks == finished()
    _, asking, result, answer = over.messages
    [call] = asking["toolCalls"]
    assert call["function"]["name"] == "memory_write"
    assert result["toolCallId"] == call["id"]
    assert "Ada" in answer["content"]
    assert len(of(found, "TOOL_CALL_RESULT")) == 1
    assert app.driver.complaints == []


async def test_a_denied_call_arrives_as_a_result_that_says_so(app: App) -> None:
    text = '[[standin: call=write_file args={"path":"a","content":"b"}]] write'
    run = await app.ask(text, forwardedProps={"varve": {"tools": ["memory_search"]}})
    over = await run.over()
    found = await settled(app, over)
    assert over.callbacks == finished()
    [result] = of(found, "TOOL_CALL_RESULT")
    told = json.loads(result["content"])
    assert told["status"] == "denied"
    assert told["reason"]
    assert [message["role"] for message in over.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert app.driver.complaints == []


async def test_a_model_that_refuses_reaches_the_error_callback(app: App) -> None:
    over = await (await app.ask("[[standin: status=401]] hello")).over()
    found = await settled(app, over)
    assert over.callbacks == [["error", "authentication"]]
    assert found[-1]["type"] == "RUN_ERROR"
    assert found[-1]["message"]


async def test_an_interrupted_run_keeps_its_text_and_says_cancelled(app: App) -> None:
    run = await app.ask("[[standin: tokens=400 delay_ms=20 flush]] talk", run_id="long")
    await run.reaches("TEXT_MESSAGE_CONTENT")
    asked = await app.person.http.post("/runs/long/interrupt", json={"reason": "enough"})
    assert asked.json()["interrupted"] is True
    over = await run.over()
    found = await settled(app, over)
    if app.generation == "1.0.0":
        assert over.callbacks == finished("cancelled")
        assert found[-1]["outcome"] == {"type": "cancelled"}
    else:
        assert over.callbacks == [["error", "cancelled"]]
        assert found[-1]["message"] == "enough"
    assert over.messages[-1]["content"].startswith("sediment settles")


async def test_an_interrupt_during_a_tool_call_answers_the_call(app: App) -> None:
    text = "[[standin: turn=1 call=list_files args={}]] [[standin: turn=2 first_delay_ms=20000]]"
    run = await app.ask(text, run_id="long")
    await run.reaches("TOOL_CALL_RESULT")
    await app.person.http.post("/runs/long/interrupt")
    over = await run.over()
    await settled(app, over)
    assert over.messages[-1]["role"] == "tool"


async def test_a_retry_after_partial_text_shows_the_text_once(app: App) -> None:
    cut = f"[[standin: cut_after=3 flush times=1 id={app.thread_id}]]"
    over = await (await app.ask(f'{cut} [[standin: say="one two three four five six"]]')).over()
    found = await settled(app, over)
    assert over.callbacks == finished()
    assert [frame["name"] for frame in of(found, "CUSTOM")] == ["varve.retry"]
    first, second = of(found, "TEXT_MESSAGE_START")
    assert first["messageId"] != second["messageId"]
    _, answer = over.messages
    assert (answer["id"], answer["content"]) == (second["messageId"], "one two three four five six")
    assert app.driver.complaints == []


async def test_two_turns_of_a_thread_build_one_conversation(app: App) -> None:
    await (await app.ask("remember that my name is Ada", message_id="q1")).over()
    over = await (await app.ask("what is 2+3*4?", message_id="q2")).over()
    found = await settled(app, over)
    [snapshot] = of(found, "MESSAGES_SNAPSHOT")
    asked = [message["id"] for message in over.messages if message["role"] == "user"]
    assert asked == ["q1", "q2"]
    assert over.messages[: len(snapshot["messages"])] == snapshot["messages"]
    assert "14" in over.messages[-1]["content"]
    assert app.driver.complaints == []


async def test_a_client_that_missed_turns_gets_them_in_their_place(app: App) -> None:
    await (await app.ask("hello", agent="phone", message_id="q1")).over()
    over = await (await app.ask("again", agent="laptop", message_id="q2")).over()
    await settled(app, over)
    over = await (await app.ask("and again", agent="phone", message_id="q3")).over()
    await settled(app, over)
    assert [message["id"] for message in over.messages[::2]] == ["q1", "q2", "q3"]
    assert app.driver.complaints == []


async def test_a_run_posted_again_is_replayed_and_not_run_again(app: App) -> None:
    again = {"run_id": "once", "message_id": "q1"}
    text = "remember that my name is Ada"
    first = await (await app.ask(text, agent="before the reload", **again)).over()
    second = await (await app.ask(text, agent="after the reload", **again)).over()
    assert await settled(app, second) == await settled(app, first)
    assert second.messages == first.messages
    assert second.callbacks == finished()
    assert app.driver.complaints == []


async def test_a_client_that_attaches_to_a_run_at_work_gets_all_of_it(app: App) -> None:
    again = {"run_id": "once", "message_id": "q1"}
    text = "[[standin: tokens=60 delay_ms=15 flush]] talk"
    first = await app.ask(text, agent="phone", **again)
    await first.reaches("TEXT_MESSAGE_CONTENT")
    second = await app.ask(text, agent="laptop", **again)
    over = await second.over()
    assert (await first.over()).messages == over.messages
    await settled(app, over)
    assert app.driver.complaints == []


async def test_the_same_run_id_with_another_message_is_refused(app: App) -> None:
    await (await app.ask("hello", run_id="once")).over()
    over = await (await app.ask("something else", agent="other", run_id="once")).over()
    assert over.status == 409
    assert over.thrown


async def test_an_answer_without_text_is_no_message_to_anyone(app: App) -> None:
    await (await app.ask("[[standin: empty]]")).over()
    over = await (await app.ask("hello")).over()
    await settled(app, over)
    assert app.driver.complaints == []


async def test_two_calls_at_once_arrive_in_the_stored_order(app: App) -> None:
    calls = 'two_calls call=list_files args={} call=memory_search args={"query":"x"}'
    over = await (await app.ask(f"[[standin: {calls}]] both")).over()
    found = await settled(app, over)
    assert len(of(found, "TOOL_CALL_RESULT")) == 2
    assert app.driver.complaints == []


async def test_a_reader_that_comes_back_gets_the_rest_of_the_same_bytes(app: App) -> None:
    over = await (await app.ask("remember that my name is Ada", run_id="known")).over()
    blocks = [block for block in over.raw.split("\n\n") if block.startswith("id: ")]
    for place in range(0, len(blocks) - 1, 5):
        last = blocks[place].split("\n")[0].removeprefix("id: ")
        response = await app.person.http.get("/runs/known/events", headers={"last-event-id": last})
        rest = [block for block in response.text.split("\n\n") if block.startswith("id: ")]
        assert rest == blocks[place + 1 :]


async def test_characters_that_break_streams_arrive_replaced_or_whole(app: App) -> None:
    text = "a\u2028b\u0085c\r\nd \U0001f600 e\0f \ud800 data: {}\n\ng"
    over = await (await app.ask(text)).over()
    await settled(app, over)
    assert over.messages[0]["content"].startswith("a\u2028b\u0085c\r\nd \U0001f600 e")
    assert over.callbacks == finished()
    assert app.driver.complaints == []


async def test_a_server_that_stops_says_so_and_the_run_goes_on(app: App) -> None:
    run = await app.ask("[[standin: tokens=60 delay_ms=15 flush]] talk", run_id="long")
    await run.reaches("TEXT_MESSAGE_CONTENT")
    app.stop_streams()
    over = await run.over()
    assert over.callbacks == [["error", "stream_closed"]]
    frames(over.raw)
    assert app.driver.complaints == []
