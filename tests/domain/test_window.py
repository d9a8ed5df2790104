"""The window: where it is cut, and that any history comes out in an order providers take."""

from hypothesis import given
from hypothesis import strategies as st

from domain.messages import Message, Role
from domain.tools import ToolCall
from domain.window import LOST_RESULT, cut, repair, rounds
from tests.conversations import conversations, refusal


def user(text: str) -> Message:
    return Message(f"u-{text}", Role.USER, text)


def assistant(text: str, *call_ids: str) -> Message:
    return Message(
        f"a-{text}", Role.ASSISTANT, text, tuple(ToolCall(id, "search", "{}") for id in call_ids)
    )


def result(call_id: str, text: str = "found") -> Message:
    return Message(f"r-{call_id}-{text}", Role.TOOL, text, tool_call_id=call_id)


@given(conversations())
def test_a_strict_provider_takes_any_history_once_it_is_repaired(
    messages: tuple[Message, ...],
) -> None:
    assert refusal(repair(messages)) is None


@given(conversations(), st.integers(1, 30), st.booleans())
def test_a_strict_provider_takes_any_window_of_any_history(
    messages: tuple[Message, ...], n: int, hidden: bool
) -> None:
    assert refusal(repair(cut(messages, n, include_hidden=hidden))) is None


@given(conversations())
def test_repairing_twice_changes_nothing(messages: tuple[Message, ...]) -> None:
    once = repair(messages)
    assert repair(once) == once


@given(conversations())
def test_repair_never_touches_user_messages_or_their_order(messages: tuple[Message, ...]) -> None:
    def spoken(of: tuple[Message, ...]) -> list[Message]:
        return [m for m in of if m.role is Role.USER]

    assert spoken(repair(messages)) == spoken(messages)


@given(conversations(), st.integers(1, 30))
def test_a_window_starts_at_the_nth_last_user_message_or_is_everything(
    messages: tuple[Message, ...], n: int
) -> None:
    shown = [m for m in messages if not m.hidden_from_user]
    users = [m for m in shown if m.role is Role.USER]
    window = cut(messages, n)
    if len(users) < n:
        assert list(window) == shown
    else:
        assert window[0] == users[-n]
        assert list(window) == shown[-len(window) :]


@given(conversations())
def test_rounds_lose_nothing_and_start_at_user_messages(messages: tuple[Message, ...]) -> None:
    found = rounds(messages)
    assert tuple(m for r in found for m in r) == messages
    assert all(r[0].role is Role.USER for r in found[1:])


def test_hidden_messages_stay_out_of_a_chat_window() -> None:
    hidden = Message("h", Role.USER, "automation", hidden_from_user=True)
    assert cut([user("one"), hidden, user("two")], 2) == (user("one"), user("two"))


def test_an_automations_own_window_has_its_hidden_messages() -> None:
    hidden = Message("h", Role.USER, "automation", hidden_from_user=True)
    assert cut([user("one"), hidden], 1, include_hidden=True) == (hidden,)


def test_a_call_that_a_crash_left_open_gets_a_result_that_says_so() -> None:
    asked = assistant("", "a", "b")
    repaired = repair([user("hi"), asked, result("b"), user("well?")])
    assert [m.content for m in repaired[2:4]] == [LOST_RESULT, "found"]
    assert repaired[-1] == user("well?")


def test_results_are_put_right_behind_their_call_in_its_order() -> None:
    repaired = repair([assistant("", "a", "b"), user("hurry"), result("b", "2"), result("a", "1")])
    assert [m.content for m in repaired] == ["", "1", "2", "hurry"]


def test_a_result_without_a_call_and_a_second_result_are_dropped() -> None:
    repaired = repair([result("z"), assistant("", "a"), result("a", "1"), result("a", "2")])
    assert [m.content for m in repaired] == ["", "1"]


def test_a_call_id_that_repeats_in_later_turns_keeps_each_turns_result() -> None:
    history = [assistant("one", "a"), result("a", "1"), assistant("two", "a"), result("a", "2")]
    assert [m.content for m in repair(history)] == ["one", "1", "two", "2"]


def test_arguments_that_broke_off_are_shown_inside_an_object() -> None:
    broken = Message("a", Role.ASSISTANT, "", (ToolCall("a", "search", '{"query": "te'),))
    assert repair([broken])[0].tool_calls[0].arguments == '{"not_an_object": "{\\"query\\": \\"te"}'
