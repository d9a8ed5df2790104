"""What each event looks like to an AG-UI client, example by example."""

from typing import Any

from domain import agui
from domain.agui_reader import Numbered, Reader
from domain.agui_shapes import NO_RESULT, messages
from domain.events import (
    SPAN,
    Notice,
    Recorded,
    RunFinished,
    RunStarted,
    RunStatus,
    TextDelta,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
    text_position,
)
from domain.messages import Message, Role, Usage
from domain.tools import ToolCall, ToolStatus
from tests.domain.agui_runs import MadeRun, client_of

CALL = ToolCall("call_1", "memory_search", '{"query":"tea"}')


def started() -> MadeRun:
    run = MadeRun()
    run.write(RunStarted("thread", "run", 1))
    return run


def speaking(text: str, *, streamed: int | None = None) -> MadeRun:
    """A run in the middle of its first turn."""
    run = started()
    run.write(TurnStarted(1, 1, "msg_1", "worker", 1))
    run.say("msg_1", text[:streamed], [2])
    return run


def types(numbered: list[Numbered]) -> list[str]:
    return [one.frame["type"] for one in numbered]


def of(run: MadeRun, type: str, **options: Any) -> list[dict[str, Any]]:
    return [one.frame for one in run.frames(**options) if one.frame["type"] == type]


def test_a_run_opens_with_its_ids_the_state_and_the_conversation() -> None:
    frames = started().frames()
    assert types(frames) == ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]
    assert [one.id for one in frames] == [SPAN, SPAN + 1, SPAN + 2]
    assert frames[0].frame == {
        "type": "RUN_STARTED",
        "threadId": "thread",
        "runId": "run",
        "protocolVersion": "1.0",
        "timestamp": 1_000,
    }
    assert frames[2].frame["messages"] == [{"id": "user_1", "role": "user", "content": "hello"}]


def test_text_is_numbered_by_its_characters() -> None:
    frames = speaking("hello").frames()[4:]
    assert types(frames) == ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT"]
    assert [one.id for one in frames] == [text_position(2, n) for n in (0, 2, 5)]
    assert [one.frame.get("delta") for one in frames] == [None, "he", "llo"]


def test_a_streamed_turn_ends_with_what_was_not_streamed_and_its_calls() -> None:
    run = speaking("hello", streamed=4)
    run.write(TurnCompleted(1, "msg_1", "worker", "tool_calls", "hello", (CALL,)))
    frames = [one.frame for one in run.frames()[7:]]
    assert [frame["type"] for frame in frames] == [
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "STEP_FINISHED",
    ]
    assert frames[0]["delta"] == "o"
    assert frames[2]["parentMessageId"] == "msg_1"
    assert frames[3]["delta"] == CALL.arguments


def test_calls_without_text_have_no_text_frames() -> None:
    run = started()
    run.write(TurnStarted(1, 1, "msg_1", "worker", 1))
    run.write(TurnCompleted(1, "msg_1", "worker", "tool_calls", "", (CALL,)))
    assert not [type for type in types(run.frames()) if type.startswith("TEXT")]


def test_a_call_without_arguments_has_the_empty_object() -> None:
    run = started()
    call = ToolCall("call_1", "list_files", "")
    run.write(TurnCompleted(1, "msg_1", "worker", "tool_calls", "", (call,)))
    assert of(run, "TOOL_CALL_ARGS")[0]["delta"] == "{}"


def test_a_refused_call_has_the_refusal_as_its_result() -> None:
    run = started()
    refusal = '{"status": "denied", "reason": "not here"}'
    run.write(ToolFinished("c", "bash", ToolStatus.DENIED, "tool_c", "not here", refusal))
    [result] = of(run, "TOOL_CALL_RESULT")
    assert (result["toolCallId"], result["messageId"]) == ("c", "tool_c")
    assert result["content"] == refusal


def test_a_retry_closes_the_partial_text_and_takes_it_back() -> None:
    run = speaking("hel")
    run.write(TurnStarted(1, 2, "msg_2", "worker", 1, supersedes="msg_1"))
    run.say("msg_2", "hello", [])
    assert types(run.frames()[-5:]) == [
        "TEXT_MESSAGE_END",
        "MESSAGES_SNAPSHOT",
        "CUSTOM",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
    ]
    assert set(client_of(run.frames()).messages) == {"user_1", "msg_2"}


def test_a_retry_before_any_text_closes_nothing() -> None:
    run = speaking("")
    run.write(TurnStarted(1, 2, "msg_2", "worker", 1, supersedes="msg_1"))
    assert types(run.frames()[-2:]) == ["MESSAGES_SNAPSHOT", "CUSTOM"]
    assert len(of(run, "STEP_STARTED")) == 1


def test_late_text_of_a_superseded_attempt_is_dropped() -> None:
    run = speaking("hel")
    late = run.items[-1]
    run.write(TurnStarted(1, 2, "msg_2", "worker", 1, supersedes="msg_1"))
    before = run.frames()
    run.items.append(late)
    assert run.frames() == before


def test_a_missing_piece_is_named_once_and_the_text_comes_whole() -> None:
    run = speaking("ab")
    run.say("msg_1", "abcdefgh", [2, 4, 6, 8])
    run.write(TurnCompleted(1, "msg_1", "worker", "stop", "abcdefgh"))
    missing = next(
        place
        for place, item in enumerate(run.items)
        if isinstance(item.event, TextDelta) and item.event.end == 4
    )
    frames = run.frames(lost=frozenset({missing}))
    [gap] = [one for one in frames if one.frame.get("name") == "varve.gap"]
    assert gap.id is None  # or it would count as seen
    assert gap.frame["value"] == {
        "messageId": "msg_1",
        "held": 2,
        "firstAvailable": text_position(2, 4),
        "lastAvailable": text_position(2, 6),
    }
    assert client_of(frames).messages["msg_1"]["content"] == "abcdefgh"


def test_notices_are_custom_events() -> None:
    run = started()
    run.write(Notice("varve.budget", {"used": 7}))
    assert of(run, "CUSTOM")[0]["value"] == {"used": 7}


def test_a_completed_run_reports_its_tokens_and_its_limit() -> None:
    run = started()
    run.write(RunFinished(RunStatus.COMPLETED, Usage(10, 5, 4), limit="max_turns"))
    [end] = of(run, "RUN_FINISHED")
    assert end["result"] == {"limit": "max_turns"}
    assert end["usage"] == [
        {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cachedInputTokens": 4}
    ]


def test_a_failed_run_closes_what_is_open_and_says_why() -> None:
    run = speaking("hel")
    run.write(RunFinished(RunStatus.FAILED, Usage(), code="overloaded", message="Busy."))
    assert types(run.frames()[-3:]) == ["TEXT_MESSAGE_END", "STEP_FINISHED", "RUN_ERROR"]
    [error] = of(run, "RUN_ERROR")
    assert (error["code"], error["message"]) == ("overloaded", "Busy.")


def test_a_call_that_never_had_a_result_gets_one_at_the_end() -> None:
    run = started()
    run.write(TurnCompleted(1, "msg_1", "worker", "tool_calls", "", (CALL,)))
    run.write(RunFinished(RunStatus.FAILED, Usage(), code="terminated"))
    assert of(run, "TOOL_CALL_RESULT")[0]["content"] == NO_RESULT


def test_an_interrupted_run_is_cancelled_in_the_words_of_the_peer() -> None:
    run = started()
    run.write(RunFinished(RunStatus.INTERRUPTED, Usage(), message="Stop."))
    assert run.frames(modern=True)[-1].frame["outcome"] == {"type": "cancelled"}
    old = run.frames(modern=False)[-1].frame
    assert (old["type"], old["code"], old["message"]) == ("RUN_ERROR", "cancelled", "Stop.")


def test_the_conversation_has_ag_ui_shape() -> None:
    conversation = [
        Message("u", Role.USER, "hi"),
        Message("a", Role.ASSISTANT, "", (CALL,)),
        Message("t", Role.TOOL, "green", tool_call_id="call_1"),
        Message("neither text nor calls", Role.ASSISTANT, ""),
    ]
    assert messages(conversation) == [
        {"id": "u", "role": "user", "content": "hi"},
        {
            "id": "a",
            "role": "assistant",
            "toolCalls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "memory_search", "arguments": CALL.arguments},
                }
            ],
        },
        {"id": "t", "role": "tool", "content": "green", "toolCallId": "call_1"},
    ]


def test_an_unanswered_call_of_the_past_is_answered_one_in_hand_is_not() -> None:
    conversation = [Message("a", Role.ASSISTANT, "", (CALL,))]
    assert messages(conversation)[1]["content"] == NO_RESULT
    assert len(messages(conversation, settled=False)) == 1


def opened(holds: tuple[str, ...]) -> list[tuple[int | None, list[str]]]:
    """(id, message ids) of the snapshots at the start, for a client with these messages."""
    run = started()
    run.conversation = [Message(id, Role.USER, id) for id in ("a", "b", "c", "d")]
    event = RunStarted("thread", "run", 4)
    _, frames = agui.encode(Reader(holds=holds), Recorded(SPAN, 1_000, event), run.through(event))
    return [
        (one.id, [message["id"] for message in one.frame["messages"]])
        for one in frames
        if one.frame["type"] == "MESSAGES_SNAPSHOT"
    ]


def test_a_client_that_holds_the_beginning_is_told_the_conversation_once() -> None:
    for holds in ((), ("a", "b"), ("a", "of its own", "b"), ("a", "b", "a")):
        assert opened(holds) == [(SPAN + 2, ["a", "b", "c", "d"])]


def test_a_client_that_missed_messages_is_first_cut_back_to_what_is_in_place() -> None:
    assert opened(("a", "d")) == [(None, ["a"]), (SPAN + 2, ["a", "b", "c", "d"])]
    assert opened(("d",)) == [(None, []), (SPAN + 2, ["a", "b", "c", "d"])]
    assert opened(("b", "a")) == [(None, []), (SPAN + 2, ["a", "b", "c", "d"])]
