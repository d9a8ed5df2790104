"""The shapes of AG-UI that we send: frames and messages, as the dictionaries that become JSON."""

import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from domain.checkpoints import Action, ActionType, Checkpoint, Scenario
from domain.events import CheckpointChanged
from domain.ids import tool_message_id
from domain.messages import Message, Role, Usage
from domain.tools import ToolCall, ToolStatus

Frame = dict[str, Any]

NO_RESULT = json.dumps(
    {"status": ToolStatus.ERROR, "reason": "The run ended before this call had a result."}
)
"""What stands for the result of a call that will never have one."""


def custom(name: str, value: dict[str, Any]) -> Frame:
    return {"type": "CUSTOM", "name": name, "value": value}


def change(event: CheckpointChanged) -> Frame:
    """The value of CUSTOM varve.checkpoint."""
    at = event.deadline_ms
    value = {
        "id": event.checkpoint_id,
        "change": event.change.value,
        "scenario": event.scenario.value,
        "severity": event.severity.value,
        "blocking": event.blocking,
        "title": event.title,
        "toolCallId": event.call_id,
        "deadline": None if at is None else datetime.fromtimestamp(at / 1000, UTC).isoformat(),
        "reminders": event.reminders,
        "action": event.action,
        "via": event.via,
    }
    return {name: member for name, member in value.items() if member is not None}


def interrupt(checkpoint: Checkpoint) -> Frame:
    """A question as an AG-UI interrupt. What it says never changes, answered or not.

    No expiresAt: clients of the 0.0.59 generation would block a thread with an expired one for
    ever. Deadlines are kept here, and told by varve.checkpoint.
    """
    return {
        "id": str(checkpoint.id),
        "reason": _reason(checkpoint),
        **({"toolCallId": checkpoint.call_id} if checkpoint.call_id else {}),
        "message": checkpoint.body,
        "responseSchema": response_schema(checkpoint),
        "metadata": {
            "scenario": checkpoint.scenario.value,
            "severity": checkpoint.severity.value,
            "title": checkpoint.title,
            "actions": [_action(action) for action in checkpoint.actions],
        },
    }


def _reason(checkpoint: Checkpoint) -> str:
    if checkpoint.scenario is Scenario.HIGH_RISK:
        return "tool_call"
    texts = any(action.type is ActionType.TEXT_INPUT for action in checkpoint.actions)
    return "input_required" if texts else "confirmation"


def response_schema(checkpoint: Checkpoint) -> Frame:
    """The `payload` of an answer: for a tool call as AG-UI clients send it, else by action."""
    if checkpoint.scenario is Scenario.HIGH_RISK:
        members: Frame = {
            "approved": {"type": "boolean"},
            "reason": {"type": "string", "description": "Why not; the model reads it"},
            "editedArgs": {"type": "object", "description": "Instead of the call's arguments"},
            "forSession": {"type": "boolean", "description": "Don't ask again for the same call"},
        }
        return {"type": "object", "properties": members, "required": ["approved"]}
    ids = [action.id for action in checkpoint.actions]
    members = {"action": {"type": "string", "enum": ids}, "input": {"type": "string"}}
    return {"type": "object", "properties": members, "required": ["action"]}


def _action(action: Action) -> Frame:
    return {"id": action.id, "label": action.label, "type": action.type.value}


def usage(tokens: Usage) -> Frame:
    return {
        "inputTokens": tokens.input_tokens,
        "outputTokens": tokens.output_tokens,
        "totalTokens": tokens.input_tokens + tokens.output_tokens,
        "cachedInputTokens": tokens.cached_tokens,
    }


def text_start(message_id: str) -> Frame:
    return {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"}


def text_content(message_id: str, delta: str) -> Frame:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": message_id, "delta": delta}


def text_end(message_id: str) -> Frame:
    return {"type": "TEXT_MESSAGE_END", "messageId": message_id}


def call_frames(call: ToolCall, message_id: str) -> tuple[Frame, Frame, Frame]:
    start = {"toolCallId": call.id, "toolCallName": call.name, "parentMessageId": message_id}
    return (
        {"type": "TOOL_CALL_START", **start},
        # An empty delta is no frame; a call without arguments is the empty object.
        {"type": "TOOL_CALL_ARGS", "toolCallId": call.id, "delta": call.arguments or "{}"},
        {"type": "TOOL_CALL_END", "toolCallId": call.id},
    )


def call_result(call_id: str, message_id: str, content: str) -> Frame:
    ids = {"messageId": message_id, "toolCallId": call_id}
    return {"type": "TOOL_CALL_RESULT", **ids, "content": content, "role": "tool"}


def messages(
    conversation: Sequence[Message], *, settled: bool = True, pending: Collection[str] = ()
) -> list[Frame]:
    """A conversation in AG-UI shape, under the ids that the client knows.

    settled: no run is at work on it, so a call without a result will never have one, and says so;
    pending: calls that will have one nevertheless.
    """
    answered = {message.tool_call_id for message in conversation}
    shaped: list[Frame] = []
    for message in conversation:
        if message.role is Role.ASSISTANT and not (message.content or message.tool_calls):
            continue  # its turn had no frame either
        shaped.append(_message(message))
        if settled:
            lost = (c for c in message.tool_calls if c.id not in answered and c.id not in pending)
            shaped += [_no_result(call) for call in lost]
    return shaped


def _message(message: Message) -> Frame:
    shape: Frame = {"id": message.id, "role": message.role.value}
    if message.content or not message.tool_calls:  # as a client builds it from the frames
        shape["content"] = message.content
    if message.tool_calls:
        shape["toolCalls"] = [_message_call(call) for call in message.tool_calls]
    if message.role is Role.TOOL:
        shape["toolCallId"] = message.tool_call_id or ""
    return shape


def _no_result(call: ToolCall) -> Frame:
    ids = {"id": tool_message_id(call.id), "toolCallId": call.id}
    return {**ids, "role": "tool", "content": NO_RESULT}


def _message_call(call: ToolCall) -> Frame:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}
