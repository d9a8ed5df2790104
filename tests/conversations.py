"""Conversations as Hypothesis draws them, and what the strictest provider would say to one."""

import json
from collections.abc import Sequence

from hypothesis import strategies as st

from domain.messages import Message, Role
from domain.tools import ToolCall

CALL_IDS = st.sampled_from(["a", "b", "c", "d", "", "x" * 50])
ARGUMENTS = st.sampled_from(['{"n": 1}', "{}", "", "[1]", '{"n": ', "null", "1e999", "[" * 2_000])
TEXTS = st.text(alphabet="ab 你\n</>", max_size=20)

calls = st.builds(
    ToolCall, id=CALL_IDS, name=st.sampled_from(["search", "write", "no such tool!", ""]),
    arguments=ARGUMENTS,
)  # fmt: skip


@st.composite
def conversations(draw: st.DrawFn, max_size: int = 25) -> tuple[Message, ...]:
    """Any history: crashed, interrupted, forked, imported. Only message ids are in order."""
    roles = draw(st.lists(st.sampled_from(list(Role)), max_size=max_size))
    return tuple(
        Message(
            id=f"m{i}",
            role=role,
            content=draw(TEXTS),
            tool_calls=tuple(draw(st.lists(calls, max_size=4))) if role is Role.ASSISTANT else (),
            tool_call_id=draw(CALL_IDS) if role is Role.TOOL else None,
            hidden_from_user=draw(st.booleans()),
            seq=i + 1,
        )
        for i, role in enumerate(roles)
    )


def refusal(messages: Sequence[Message]) -> str | None:
    """Why a strict provider refuses this conversation; None if it takes it."""
    waiting: list[str] = []
    for message in messages:
        if waiting and (message.role is not Role.TOOL or message.tool_call_id != waiting[0]):
            return f"call {waiting[0]} is not answered where it must be"
        match message.role:
            case Role.TOOL:
                if not waiting:
                    return f"result {message.id} answers no call"
                waiting.pop(0)
            case Role.ASSISTANT:
                if not (message.content.strip() or message.tool_calls):
                    return f"assistant message {message.id} is empty"
                if problem := _calls_problem(message.tool_calls):
                    return problem
                waiting = [call.id for call in message.tool_calls]
            case Role.USER | Role.SYSTEM:
                pass
    return f"call {waiting[0]} is never answered" if waiting else None


def _calls_problem(calls: Sequence[ToolCall]) -> str | None:
    ids = [call.id for call in calls]
    if len(set(ids)) < len(ids):
        return "a call id is used twice"
    for call in calls:
        if not 0 < len(call.id) <= 40:
            return "a call id is empty or too long"
        if not call.name or not all(c.isascii() and (c.isalnum() or c in "_.-") for c in call.name):
            return f"{call.name!r} is no name"
        try:
            parsed = json.loads(call.arguments)
        except ValueError:
            return "arguments are not JSON"
        if not isinstance(parsed, dict):
            return "arguments are not an object"
    return None
