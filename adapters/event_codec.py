"""Our events as JSON: whole on the live stream, without the message's text in PostgreSQL."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field, TypeAdapter

from domain.events import DurableEvent, RunEvent, ToolFinished, TurnCompleted
from domain.tools import ToolCall

_event: TypeAdapter[RunEvent] = TypeAdapter(Annotated[RunEvent, Field(discriminator="kind")])
_durable: TypeAdapter[DurableEvent] = TypeAdapter(
    Annotated[DurableEvent, Field(discriminator="kind")]
)

_calls: TypeAdapter[tuple[ToolCall, ...]] = TypeAdapter(tuple[ToolCall, ...])

_IN_MESSAGE_ROW = {"text", "tool_calls", "content"}


def dump(event: RunEvent) -> bytes:
    """Whole, for the live stream."""
    return _event.dump_json(event)


def load(data: bytes | str) -> RunEvent:
    return _event.validate_json(data)


def dump_row(event: DurableEvent) -> str:
    """For `run_events.payload`: what the message row holds is left out."""
    match event:
        case TurnCompleted() | ToolFinished():
            return _durable.dump_json(event, exclude=_IN_MESSAGE_ROW).decode()
        case _:
            return _durable.dump_json(event).decode()


def load_row(payload: str, content: str | None, tool_calls: str | None) -> DurableEvent:
    """A `run_events` row with the content and calls of the message it names, if any."""
    event = _durable.validate_json(payload)
    match event:
        case TurnCompleted():
            return replace(event, text=content or "", tool_calls=load_calls(tool_calls))
        case ToolFinished():
            return replace(event, content=content or "")
        case _:
            return event


def dump_calls(calls: tuple[ToolCall, ...]) -> str | None:
    return _calls.dump_json(calls).decode() if calls else None


def load_calls(data: str | None) -> tuple[ToolCall, ...]:
    return _calls.validate_json(data) if data else ()
