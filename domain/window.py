"""The part of a conversation that a model is shown, in an order any provider accepts. Pure."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from domain.ids import tool_message_id
from domain.messages import Message, Role
from domain.tools import ToolCall

LOST_RESULT = json.dumps(
    {
        "status": "error",
        "reason": "No result was recorded: the run stopped before this call had one. "
        "It may or may not have taken effect.",
    }
)
_MOST = 64  # characters of a tool's name
_MOST_ID = 40  # characters of a call's id
_BAD_IN_NAME = re.compile(r"[^a-zA-Z0-9_.-]")
_SHOWN_ARGUMENTS = 2_000  # characters of arguments that are not a JSON object


def cut(
    messages: Sequence[Message], user_messages: int, *, include_hidden: bool = False
) -> tuple[Message, ...]:
    """From the n-th last user message to the end; all if there are fewer. Cuts nowhere else.

    Hidden messages are left out first, unless they belong (an automation's own session).
    """
    shown = tuple(m for m in messages if include_hidden or not m.hidden_from_user)
    starts = [i for i, message in enumerate(shown) if message.role is Role.USER]
    return shown[starts[-user_messages] :] if len(starts) >= user_messages else shown


def rounds(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Split before each user message. What stands before the first one is a round as well."""
    starts = [i for i, message in enumerate(messages) if message.role is Role.USER]
    edges = [0, *(i for i in starts if i > 0), len(messages)]
    return [tuple(messages[a:b]) for a, b in pairwise(edges) if a < b]


@dataclass(slots=True)
class _Slot:
    """A message to be sent, and for an assistant's the results of its calls so far."""

    message: Message
    results: dict[str, Message] = field(default_factory=dict[str, Message])


def repair(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Give every tool call exactly one result, right behind it and in the order of the calls.

    A call without a result gets one that says so. A result without an open call before it is
    dropped, and so is a second call with the same id in one message, and an assistant message
    that says and calls nothing. Ids, names and arguments that providers refuse are put into a
    form that they take. User messages are never touched. Repairing twice changes nothing.
    """
    slots: list[_Slot] = []
    waiting: dict[str, _Slot] = {}  # call id → the last assistant message that made it
    for message in messages:
        match message.role:
            case Role.TOOL:
                id = _call_id(message.tool_call_id or "")
                if (slot := waiting.pop(id, None)) is not None:
                    slot.results[id] = replace(message, tool_call_id=id, tool_calls=())
            case Role.ASSISTANT:
                slot = _Slot(replace(message, tool_calls=_distinct(message.tool_calls)))
                waiting |= {call.id: slot for call in slot.message.tool_calls}
                if slot.message.content.strip() or slot.message.tool_calls:
                    slots.append(slot)
            case Role.USER | Role.SYSTEM:
                slots.append(_Slot(message))
    return tuple(message for slot in slots for message in _whole(slot))


def _whole(slot: _Slot) -> Iterable[Message]:
    yield slot.message
    for call in slot.message.tool_calls:
        yield slot.results.get(call.id) or Message(
            id=tool_message_id(call.id),
            role=Role.TOOL,
            content=LOST_RESULT,
            tool_call_id=call.id,
        )


def _distinct(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    first: dict[str, ToolCall] = {}
    for call in calls:
        id = _call_id(call.id)
        name = _BAD_IN_NAME.sub("_", call.name)[:_MOST] or "_"
        first.setdefault(id, ToolCall(id, name, _object(call.arguments)))
    return tuple(first.values())


def _call_id(id: str) -> str:
    """The id, if a provider takes it; else a shorter one made from it."""
    if 0 < len(id) <= _MOST_ID:
        return id
    return hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:_MOST_ID]


def _object(arguments: str) -> str:
    """The arguments, if they are a JSON object as providers demand; else one that shows them."""
    if not arguments.strip():
        return "{}"
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict):
        return arguments
    return json.dumps({"not_an_object": arguments[:_SHOWN_ARGUMENTS]}, ensure_ascii=False)
