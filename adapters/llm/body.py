"""A request in our words → the body of POST /chat/completions, as the strictest provider takes it.

What strict providers refuse, and what is sent instead: an empty content (a placeholder; an empty
assistant message is left out), arguments that are not a JSON object (wrapped into one), a name
with other characters than letters, digits, - and _ (replaced), a system message that is not the
first (sent as the user's), NUL and lone surrogates (U+FFFD).
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import jiter

from adapters.llm.dialects import output_form, output_limit, thinking
from adapters.settings import Dialect
from domain.messages import Message, ModelRequest, Role
from domain.text import clean
from domain.tools import ToolCall, ToolSpec

EMPTY = "(empty)"
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class Names:
    """Tool names as providers take them, and back: `weather.today` travels as `weather_today`."""

    to_wire: dict[str, str]
    from_wire: dict[str, str]

    @classmethod
    def of(cls, tools: Iterable[ToolSpec]) -> "Names":
        names = cls({}, {})
        for tool in tools:
            wire = base = _wire_name(tool.name)
            number = 2
            while wire in names.from_wire:  # two names that differ only in what is replaced
                wire = f"{base[: _LONGEST_NAME - 4]}_{number}"
                number += 1
            names.to_wire[tool.name], names.from_wire[wire] = wire, tool.name
        return names

    def outward(self, name: str) -> str:
        return self.to_wire.get(name) or _wire_name(name)

    def inward(self, wire: str) -> str:
        return self.from_wire.get(wire, wire)


def _wire_name(name: str) -> str:
    return _FORBIDDEN.sub("_", name)[:_LONGEST_NAME] or "unknown"


def build(request: ModelRequest, names: Names, dialect: Dialect) -> dict[str, Any]:
    """The JSON body, always a streaming call that ends with its usage."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": _messages(request, names),
        "stream": True,
        "stream_options": {"include_usage": True},
        **output_limit(dialect, request.max_output_tokens),
        **thinking(dialect, request.model, on=request.thinking),
    }
    if request.tools:
        body["tools"] = [_tool(tool, names) for tool in request.tools]
    if request.output is not None:
        body |= output_form(dialect, request.output)
    return body


def _messages(request: ModelRequest, names: Names) -> list[dict[str, Any]]:
    leading = list(takewhile(lambda m: m.role is Role.SYSTEM, request.messages))
    system = "\n\n".join(
        text for text in (request.system, *(m.content for m in leading)) if text.strip()
    )
    messages = [{"role": "system", "content": clean(system)}] if system else []
    for message in request.messages[len(leading) :]:
        if (mapped := _message(message, names)) is not None:
            messages.append(mapped)
    return messages


def _message(message: Message, names: Names) -> dict[str, Any] | None:
    content = clean(message.content)
    match message.role:
        case Role.USER:
            return {"role": "user", "content": content or EMPTY}
        case Role.SYSTEM:
            return {"role": "user", "content": content} if content.strip() else None
        case Role.TOOL:
            answered = {"role": "tool", "tool_call_id": message.tool_call_id or ""}
            return {**answered, "content": content or EMPTY}
        case Role.ASSISTANT:
            if message.tool_calls:
                calls = [_call(call, names) for call in message.tool_calls]
                # "" rather than null: every provider takes it, some templates join it to text.
                return {"role": "assistant", "content": content, "tool_calls": calls}
            return {"role": "assistant", "content": content} if content else None


def _call(call: ToolCall, names: Names) -> dict[str, Any]:
    function = {"name": names.outward(call.name), "arguments": _arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _arguments(written: str) -> str:
    """The arguments if they are a JSON object; else an object that shows what was written."""
    try:
        if isinstance(jiter.from_json(written.encode(), allow_inf_nan=False), dict):
            return written
    except ValueError:  # also what UnicodeEncodeError is
        pass
    return json.dumps({"invalid_json": clean(written)}, ensure_ascii=False)


def _tool(tool: ToolSpec, names: Names) -> dict[str, Any]:
    function: dict[str, Any] = {
        "name": names.outward(tool.name),
        "description": clean(tool.description),
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}
