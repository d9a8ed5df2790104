"""The conversation, in our own words. Stores, providers and AG-UI map to and from these."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from domain.tools import ToolCall, ToolSpec


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class Origin(StrEnum):
    CHAT = "chat"
    AUTOMATION = "automation"


class FinishReason(StrEnum):
    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Message:
    """One row of a session. `seq` is dense per session, starting at 1; 0 = not stored yet."""

    id: str
    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()  # assistant only
    tool_call_id: str | None = None  # tool only
    hidden_from_user: bool = False
    seq: int = 0
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more model calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
            self.cached_tokens - other.cached_tokens,
        )


@dataclass(frozen=True, slots=True)
class OutputForm:
    """The form that an answer must have; providers that know how hold the model to it."""

    name: str
    schema: Mapping[str, Any]  # JSON Schema of the whole answer


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call to a model. `messages` excludes the system prompt; an empty one is never sent."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int = 4096
    thinking: bool = False
    output: OutputForm | None = None  # None: text


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What came back, whole. Tool call ids are the provider's; the caller issues its own."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    usage: Usage
    model: str  # the name the provider reports
