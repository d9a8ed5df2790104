"""What gives way when a conversation is too long, and in which order."""

from hypothesis import given
from hypothesis import strategies as st

from domain.fitting import fit
from domain.messages import Message, Role
from domain.tools import ToolCall
from domain.window import repair, rounds
from tests.conversations import conversations, refusal


def size(message: Message) -> int:
    return len(message.content) + 4


def exchange(n: int, output: str = "o" * 5_000) -> list[Message]:
    """A round: the user asks, a tool is called, its output read, an answer given."""
    return [
        Message(f"u{n}", Role.USER, f"question {n}"),
        Message(f"c{n}", Role.ASSISTANT, "", (ToolCall(f"call{n}", "search", "{}"),)),
        Message(f"r{n}", Role.TOOL, output, tool_call_id=f"call{n}"),
        Message(f"a{n}", Role.ASSISTANT, f"answer {n}"),
    ]


def history(count: int) -> list[Message]:
    return [message for n in range(1, count + 1) for message in exchange(n)]


def test_what_fits_is_left_alone() -> None:
    messages = history(5)
    fitted = fit(messages, room=100_000, limit=100_000, measure=size)
    assert (list(fitted.messages), fitted.shortened, fitted.dropped) == (messages, (), ())


def test_the_oldest_tool_outputs_shrink_first_and_only_as_many_as_needed() -> None:
    fitted = fit(history(6), room=24_000, limit=40_000, measure=size)
    assert fitted.shortened == ("r1", "r2")
    assert fitted.dropped == ()
    assert fitted.tokens == sum(map(size, fitted.messages)) <= 24_000


def test_then_whole_rounds_go_and_the_last_three_stay_word_for_word() -> None:
    messages = history(8)
    fitted = fit(messages, room=15_500, limit=40_000, measure=size)
    assert list(fitted.messages) == messages[-12:]
    assert fitted.dropped == tuple(m.id for m in messages[:-12])


def test_one_turn_with_two_hundred_calls_still_fits() -> None:
    calls = tuple(ToolCall(f"c{i}", "search", "{}") for i in range(200))
    results = [Message(f"r{i}", Role.TOOL, "o" * 9_000, tool_call_id=f"c{i}") for i in range(200)]
    messages = [Message("u", Role.USER, "go"), Message("a", Role.ASSISTANT, "", calls), *results]
    fitted = fit(messages, room=200_000, limit=220_000, measure=size)
    assert fitted.tokens <= 200_000
    assert refusal(fitted.messages) is None
    assert fitted.messages[-1].content.startswith("ooo")


def test_user_text_the_model_can_not_take_costs_older_rounds_but_stays_whole() -> None:
    messages = [Message(f"u{i}", Role.USER, "x" * 1_000) for i in range(3)]
    fitted = fit(messages, room=800, limit=1_100, measure=size)
    assert list(fitted.messages) == messages[-1:]


@given(conversations(), st.integers(0, 400), st.integers(0, 400))
def test_whatever_is_fitted_a_strict_provider_takes_it_and_users_were_not_edited(
    messages: tuple[Message, ...], room: int, more: int
) -> None:
    whole = repair(messages)
    fitted = fit(whole, room=room, limit=room + more, measure=size)
    assert refusal(fitted.messages) is None
    kept = [m for m in fitted.messages if m.role is Role.USER]
    assert kept == [m for m in whole if m.role is Role.USER][-len(kept) :] or not kept
    assert fitted.tokens == sum(map(size, fitted.messages))
    assert len(rounds(fitted.messages)) >= min(1, len(rounds(whole)))
