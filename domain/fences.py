"""Marks around text that is data, so that a model can tell it from what it is told. Pure."""

import re
from collections.abc import Iterable
from dataclasses import replace

from domain.messages import Message, Role

TOOL_FENCE = "tool_output"
CONTEXT_FENCE = "context"

_MARKS = re.compile(rf"<(?=\s*/?\s*(?:{TOOL_FENCE}|{CONTEXT_FENCE})\b)", re.IGNORECASE)
_NOT_IN_NAME = re.compile(r"[^\w.-]")


def fenced(fence: str, text: str, name: str = "") -> str:
    """`text` between marks. Marks inside it are defused: nothing in it can end the fence."""
    label = f' name="{_NOT_IN_NAME.sub("_", name)[:64]}"' if name else ""
    return f"<{fence}{label}>\n{_MARKS.sub('&lt;', text)}\n</{fence}>"


def sealed(messages: Iterable[Message]) -> list[Message]:
    """Tool outputs fenced; system messages of the history become fenced notes, since strict
    providers take a system message only at the very beginning."""
    result: list[Message] = []
    names: dict[str, str] = {}  # tool call id → tool
    for message in messages:
        names |= {call.id: call.name for call in message.tool_calls}
        match message.role:
            case Role.TOOL:
                name = names.get(message.tool_call_id or "", "")
                result.append(replace(message, content=fenced(TOOL_FENCE, message.content, name)))
            case Role.SYSTEM:
                text = fenced(CONTEXT_FENCE, message.content)
                result.append(replace(message, role=Role.USER, content=text))
            case Role.USER | Role.ASSISTANT:
                result.append(message)
    return result
