"""What a memory run reads and what its model may propose. All of it is data to judge. Pure."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import Any
from uuid import UUID

from domain.facts import GLOBAL, Evidence
from domain.ids import tool_call_id
from domain.messages import Message, Role
from domain.orders import is_nothing_but_orders, takes_over
from domain.tools import ToolCall

WINDOW_FENCE = "window"
MAX_OPERATIONS = 100
KEYS_SHOWN = 60
_SHOWN_OF_ASSISTANT = 800  # characters; what it said is there to make the user's words plain
_SHOWN_OF_USER = (64_000, 16_000, 4_000, 1_000)  # tried in this order when a window is too long

# `<` so that nothing inside can end the fence, the rest so that an entry stays on its line
# for every reader.
_ESCAPED = {ord(c): f"\\u{ord(c):04x}" for c in "<\x7f\x85\u2028\u2029"}
_WORDS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Said:
    """A message with the session it stands in and when it was said."""

    session_key: UUID
    message: Message
    at: datetime


@dataclass(frozen=True, slots=True)
class Entry:
    """A message of a window under the short name that evidence is given by."""

    reference: str
    evidence: Evidence
    role: Role
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Cited:
    """What the references of a window stand for, and which of them facts may rest on."""

    references: Mapping[str, Evidence] = field(default_factory=dict[str, Evidence])
    admitted: frozenset[Evidence] = frozenset()
    orders: frozenset[Evidence] = frozenset()  # of the admitted: nothing but orders, no facts
    takeovers: frozenset[Evidence] = frozenset()  # of these: nothing is forgotten on their word


@dataclass(frozen=True, slots=True)
class Write:
    """Remember something. `evidence`: references of the window, as the model gave them."""

    key: str
    value: str
    confidence: float
    evidence: tuple[str, ...]
    tags: tuple[str, ...] = ()
    scope: str = GLOBAL


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget a key, or the fact with an id."""

    reason: str
    evidence: tuple[str, ...]
    key: str | None = None
    memory_id: str | None = None
    scope: str = GLOBAL


Operation = Write | Forget


def entries_of(said: Iterable[Said]) -> tuple[Entry, ...]:
    """What a window shows: what the user and the assistant said, in order, named m1, m2, …

    Left out are hidden messages, tool calls and tool results (a search of the memory would feed
    it what it knows), and the answers of earlier memory runs.
    """
    spoken = [each for each in said if _speaks(each.message)]
    return tuple(
        Entry(
            reference=f"m{number}",
            evidence=Evidence(each.session_key, each.message.id),
            role=each.message.role,
            at=each.at,
            text=each.message.content,
        )
        for number, each in enumerate(spoken, 1)
    )


def _speaks(message: Message) -> bool:
    if message.hidden_from_user or not message.content.strip():
        return False
    if message.role is Role.ASSISTANT:
        return message.metadata.get("executor") != "memory"
    return message.role is Role.USER


def cited(entries: Iterable[Entry]) -> Cited:
    """Facts may rest on what the user said, and on nothing else."""
    entries = tuple(entries)
    users = [entry for entry in entries if entry.role is Role.USER]
    return Cited(
        references={entry.reference: entry.evidence for entry in entries},
        admitted=frozenset(entry.evidence for entry in users),
        orders=frozenset(e.evidence for e in users if is_nothing_but_orders(e.text)),
        takeovers=frozenset(e.evidence for e in users if takes_over(e.text)),
    )


@dataclass(frozen=True, slots=True)
class Fitted:
    """A window as it is shown. `dropped`: message ids of what found no room, oldest first."""

    entries: tuple[Entry, ...]
    shortened: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


def fit_window(entries: Sequence[Entry], *, room: int, measure: Callable[[Entry], int]) -> Fitted:
    """Make a window take at most `room` tokens.

    What the assistant said is always shortened. A window is cut to fit where it is made, so the
    user's own words are shortened only when even that is too much, and dropped last, oldest first.
    """
    shown = [_shortened(e, _SHOWN_OF_ASSISTANT) if e.role is Role.ASSISTANT else e for e in entries]
    for most in _SHOWN_OF_USER:
        if sum(map(measure, shown)) <= room:
            break
        shown = [_shortened(entry, most) for entry in shown]
    sizes = [measure(entry) for entry in shown]
    first, total = 0, sum(sizes)
    while total > room and first < len(shown) - 1:
        total -= sizes[first]
        first += 1
    changed = [
        now.evidence.message_id
        for was, now in zip(entries[first:], shown[first:], strict=True)
        if was.text != now.text
    ]
    dropped = tuple(entry.evidence.message_id for entry in entries[:first])
    return Fitted(tuple(shown[first:]), tuple(changed), dropped)


def _shortened(entry: Entry, most: int) -> Entry:
    text = entry.text
    if len(text) <= most:
        return entry
    head = most * 3 // 4
    notice = f" [… {len(text) - most:,} characters left out …] "
    return replace(entry, text=text[:head] + notice + text[head - most :])


def rendered(entries: Sequence[Entry], zone: tzinfo) -> str:
    """The window between its marks: one line of JSON per message, so that no text in it can end
    its line, its entry or the fence."""
    sessions = {entry.evidence.session_key: None for entry in entries}
    numbers = {session: number for number, session in enumerate(sessions, 1)}
    lines = (line_of(entry, zone, numbers if len(numbers) > 1 else {}) for entry in entries)
    return "\n".join((f"<{WINDOW_FENCE}>", *lines, f"</{WINDOW_FENCE}>"))


def line_of(entry: Entry, zone: tzinfo, chats: Mapping[UUID, int]) -> str:
    """One entry. `chats`: the number of its conversation, where there are several."""
    shown: dict[str, Any] = {"ref": entry.reference}
    if entry.evidence.session_key in chats:
        shown["chat"] = chats[entry.evidence.session_key]
    at = entry.at.astimezone(zone).isoformat(timespec="minutes")
    shown |= {"role": entry.role.value, "at": at, "text": entry.text}
    return json.dumps(shown, ensure_ascii=False).translate(_ESCAPED)


def related_keys(keys: Sequence[str], text: str, most: int = KEYS_SHOWN) -> tuple[str, ...]:
    """The known keys that a text is likeliest to be about, most words in common first.

    `keys`: newest first, which decides where the words don't. A Chinese key counts as in common
    if it occurs, since words can't be told apart there.
    """
    folded = text.casefold()
    words = set(_WORDS.findall(folded))

    def common(key: str) -> int:
        parts = _WORDS.findall(key.casefold())
        return sum(part in words or (not part.isascii() and part in folded) for part in parts)

    return tuple(sorted(keys, key=common, reverse=True)[:most])


def tool_calls(
    operations: Iterable[Operation], references: Mapping[str, Evidence], run_key: UUID, turn: int
) -> tuple[ToolCall, ...]:
    """The operations as calls of the memory tools, in the order in which they were said.

    The order of the newest evidence, not the model's: so the same operations leave the same
    history however they are listed.
    """
    places = {reference: place for place, reference in enumerate(references)}

    def said_at(operation: Operation) -> int:
        return max((places.get(name, -1) for name in operation.evidence), default=-1)

    return tuple(
        ToolCall(tool_call_id(run_key, turn, index), *_call(operation))
        for index, operation in enumerate(sorted(operations, key=said_at))
    )


def _call(operation: Operation) -> tuple[str, str]:
    match operation:
        case Write():
            name = "memory_write"
            arguments: dict[str, Any] = {
                "key": operation.key,
                "value": operation.value,
                "tags": list(operation.tags),
                "confidence": operation.confidence,
            }
        case Forget():
            name = "memory_forget"
            which = {"key": operation.key, "memory_id": operation.memory_id}
            arguments = {each: given for each, given in which.items() if given is not None}
            arguments["reason"] = operation.reason
    arguments |= {"scope": operation.scope, "evidence": list(operation.evidence)}
    return name, json.dumps(arguments, ensure_ascii=False)
