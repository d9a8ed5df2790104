"""What a client may send, checked as strictly as the strictest provider would."""

import json
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, model_validator

NAME = r"^[a-zA-Z0-9_.-]{1,64}$"


class Function(BaseModel):
    name: str = Field(pattern=NAME)
    arguments: str


class Call(BaseModel):
    id: str = Field(min_length=1, max_length=40)
    type: Literal["function"]
    function: Function


class Part(BaseModel):
    type: str
    text: str = ""


class ChatMessage(BaseModel):
    """One message; which fields it may carry depends on its role."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    name: str | None = None
    tool_calls: list[Call] | None = Field(default=None, min_length=1)
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class FunctionSchema(BaseModel):
    name: str = Field(pattern=NAME)
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])


class Tool(BaseModel):
    type: Literal["function"]
    function: FunctionSchema


class StreamOptions(BaseModel):
    include_usage: bool = False


class ResponseFormat(BaseModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: dict[str, Any] | None = None


class ChatRequest(BaseModel):
    """The body of POST /v1/chat/completions. Fields that are not listed are recorded, not read."""

    model: str = Field(min_length=1)
    messages: list[ChatMessage] = Field(min_length=1)
    tools: list[Tool] | None = Field(default=None, min_length=1)
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    response_format: ResponseFormat | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _acceptable(self) -> "ChatRequest":
        for message in self.messages:
            _check_message(message)
        _check_calls_are_answered(self.messages)
        if self.response_format is not None:
            _check_format(self.response_format, self.messages)
        return self

    @property
    def offered(self) -> tuple[str, ...]:
        return tuple(tool.function.name for tool in self.tools or ())

    @property
    def limit(self) -> int | None:
        """The most tokens the answer may have."""
        return self.max_completion_tokens or self.max_tokens


class Refused(ValueError):
    """The body is one that a strict provider answers with 400; the text says why."""


def read(body: object) -> ChatRequest:
    """The request in a parsed JSON body. Raises Refused."""
    try:
        return ChatRequest.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "messages"
        raise Refused(f"Invalid value for '{where}': {first['msg']}") from error


def _check_message(message: ChatMessage) -> None:
    if message.role == "tool" and (not message.tool_call_id or message.content is None):
        raise ValueError("a tool message needs tool_call_id and content")
    if message.role != "tool" and message.tool_call_id is not None:
        raise ValueError("only a tool message has a tool_call_id")
    if message.role != "assistant" and message.tool_calls:
        raise ValueError("only an assistant message has tool_calls")
    if message.role != "tool" and not message.text and not message.tool_calls:
        raise ValueError(f"the content of a message of role {message.role} is empty")
    for call in message.tool_calls or ():
        _check_arguments(call)


def _check_format(wanted: ResponseFormat, messages: list[ChatMessage]) -> None:
    if wanted.type == "json_object" and not any("json" in m.text.lower() for m in messages):
        raise ValueError("'messages' must contain the word 'json' for a json_object")
    if wanted.type == "json_schema" and not (wanted.json_schema or {}).get("schema"):
        raise ValueError("response_format needs a schema")


def _check_arguments(call: Call) -> None:
    try:
        arguments: object = json.loads(call.function.arguments)
    except ValueError as error:
        raise ValueError(f"arguments of tool call {call.id} are not JSON") from error
    if not isinstance(arguments, dict):
        raise ValueError(f"arguments of tool call {call.id} are not a JSON object")


def _check_calls_are_answered(messages: list[ChatMessage]) -> None:
    open_calls: set[str] = set()
    for message in messages:
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                raise ValueError(f"tool message answers no open call: {message.tool_call_id}")
            open_calls.discard(message.tool_call_id)
            continue
        if open_calls:
            raise ValueError(f"tool calls without a result: {', '.join(sorted(open_calls))}")
        open_calls = {call.id for call in message.tool_calls or ()}
        if len(open_calls) != len(message.tool_calls or ()):
            raise ValueError("two tool calls of one message share an id")
    if open_calls:
        raise ValueError(f"tool calls without a result: {', '.join(sorted(open_calls))}")
