"""Cut what was said since the last time into a window that one run can read. Pure.

A window holds whole stretches of sessions, each from a user message to just before a later one, so
that every answer stays with its question. Oldest first; of one session never a later message
without the earlier ones, or its watermark would pass them over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from domain.jobs import Part

MAX_USER_MESSAGES = 20
MAX_TOKENS = 16_000
"""Of the user messages, as estimated. One message that is longer has a window of its own."""


@dataclass(frozen=True, slots=True)
class Said:
    """A user message nobody has read yet. `through`: the last seq before the session's next one."""

    session_key: UUID
    seq: int
    through: int
    at: datetime
    tokens: int


@dataclass(frozen=True, slots=True)
class Cut:
    parts: tuple[Part, ...]
    user_messages: int


def cut(said: Sequence[Said]) -> Cut:
    """The next window: what fits of these, which are oldest first and in order per session."""
    taken: dict[UUID, Part] = {}
    tokens = count = 0
    for message in said[:MAX_USER_MESSAGES]:
        tokens += message.tokens
        if count and tokens > MAX_TOKENS:
            break
        count += 1
        begun = taken.get(message.session_key)
        first = message.seq if begun is None else begun.first_seq
        taken[message.session_key] = Part(message.session_key, first, message.through)
    return Cut(tuple(taken.values()), count)
