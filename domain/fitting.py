"""Make a conversation fit a number of tokens: tool outputs shrink first, user text never. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from domain.messages import Message, Role
from domain.window import rounds

KEPT_ROUNDS = 3
_HEAD = 600  # characters that a shrunk tool output keeps of its beginning
_TAIL = 200

Measure = Callable[[Message], int]
"""Tokens that a message takes."""


@dataclass(frozen=True, slots=True)
class Fitted:
    messages: tuple[Message, ...]
    tokens: int
    shortened: tuple[str, ...] = ()  # message ids, oldest first
    dropped: tuple[str, ...] = ()


def fit(messages: Sequence[Message], *, room: int, limit: int, measure: Measure) -> Fitted:
    """Make `messages` (repaired) take at most `room` tokens, in this order, until they do:

    1. shrink tool outputs before the last 3 rounds, oldest first;
    2. drop the oldest rounds but the last 3, whole;
    3. shrink the tool outputs that are left, oldest first;
    4. beyond `limit`, which the model can't take at all: drop all rounds but the last.

    What is still too long then is the user's own text, and goes out as it is.
    """
    work = _Work(messages, measure)
    split = len(messages) - sum(len(r) for r in rounds(messages)[-KEPT_ROUNDS:])
    work.shrink(0, split, room)
    work.drop_rounds(KEPT_ROUNDS, room)
    work.shrink(split, len(messages), room)
    work.drop_rounds(1, limit)
    return work.done()


class _Work:
    """A conversation that is being fitted; positions are those of the original."""

    def __init__(self, messages: Sequence[Message], measure: Measure) -> None:
        self._messages = list(messages)
        self._sizes = [measure(message) for message in messages]
        self._measure = measure
        self._total = sum(self._sizes)
        self._start = 0  # everything before it is dropped
        self._shortened: list[int] = []

    def shrink(self, first: int, end: int, room: int) -> None:
        for i in range(max(first, self._start), end):
            if self._total <= room:
                return
            shrunk = _shrunk(self._messages[i])
            if shrunk is not None and (size := self._measure(shrunk)) < self._sizes[i]:
                self._total -= self._sizes[i] - size
                self._messages[i], self._sizes[i] = shrunk, size
                self._shortened.append(i)

    def drop_rounds(self, keep: int, room: int) -> None:
        for gone in rounds(self._messages[self._start :])[:-keep]:
            if self._total <= room:
                return
            end = self._start + len(gone)
            self._total -= sum(self._sizes[self._start : end])
            self._start = end

    def done(self) -> Fitted:
        return Fitted(
            messages=tuple(self._messages[self._start :]),
            tokens=self._total,
            shortened=tuple(self._messages[i].id for i in self._shortened if i >= self._start),
            dropped=tuple(message.id for message in self._messages[: self._start]),
        )


def _shrunk(message: Message) -> Message | None:
    """A tool message with the middle of its output left out; None if there is nothing to gain."""
    text = message.content
    if message.role is not Role.TOOL or len(text) <= 2 * (_HEAD + _TAIL):
        return None
    left_out = len(text) - _HEAD - _TAIL
    notice = f"\n[… {left_out:,} characters left out to save room …]\n"
    return replace(message, content=text[:_HEAD] + notice + text[-_TAIL:])
