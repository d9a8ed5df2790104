"""Cutting what was said into windows."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from domain.cutting import MAX_TOKENS, MAX_USER_MESSAGES, Said, cut
from domain.jobs import Part

START = datetime(2027, 1, 1, tzinfo=UTC)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 4), st.integers(0, 2 * MAX_TOKENS)),
        max_size=70,
    )
)
def test_windows_take_every_message_once_and_none_before_an_earlier_one(
    drawn: list[tuple[int, int, int]],
) -> None:
    said: list[Said] = []
    last = dict.fromkeys(range(4), 0)
    for minute, (session, answers, tokens) in enumerate(drawn):
        seq = last[session] + 1
        last[session] = seq + answers
        at = START + timedelta(minutes=minute)
        said.append(Said(UUID(int=session), seq, last[session], at, tokens))
    left, read = said, dict.fromkeys((UUID(int=n) for n in range(4)), 0)
    while left:
        window = cut(left)
        taken = [m for m in left if any(_holds(part, m) for part in window.parts)]
        assert taken == left[: len(taken)]
        assert window.user_messages == len(taken) <= MAX_USER_MESSAGES
        assert len(taken) == 1 or sum(m.tokens for m in taken) <= MAX_TOKENS
        for part in window.parts:
            assert part.first_seq == read[part.session_key] + 1
            read[part.session_key] = part.last_seq
        left = left[len(taken) :]
    assert {key.int: seq for key, seq in read.items()} == last


def _holds(part: Part, message: Said) -> bool:
    return part.session_key == message.session_key and (
        part.first_seq <= message.seq <= part.last_seq
    )
