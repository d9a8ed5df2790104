"""A streamed answer put together from its chunks, with the quirks that providers have.

Chunks are read as plain JSON rather than as the SDK's models: building those for every token
costs more than all the rest of a run (docs/decisions/0007-lean-model-client.md).
"""

import json
from typing import Any, cast

import jiter
import structlog

from adapters.llm.body import Names
from adapters.llm.failures import from_stream
from adapters.llm.sse import EventData
from domain.errors import ErrorCode, Transient
from domain.messages import FinishReason, ModelReply, Usage
from domain.text import clean
from domain.tools import ToolCall

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_FINISHED = {
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
}
# Said by providers that ran out of machines in the middle of an answer.
_BROKEN_OFF = frozenset({"insufficient_system_resource", "error", "network_error"})


class ReplyReader:
    """Feed it the bytes of a stream; each feed returns the text that came with them."""

    def __init__(self) -> None:
        self.done = False  # [DONE] was seen
        self._events = EventData()
        self._text: list[str] = []
        self._calls = _Calls()
        self._finish = ""
        self._usage = Usage()
        self._model = ""

    def feed(self, block: bytes) -> str:
        """Raises Transient or Permanent for an error inside the stream."""
        return self._read(self._events.feed(block))

    def close(self) -> str:
        """Text that only the end of the stream completes."""
        return self._read(self._events.close())

    @property
    def complete(self) -> bool:
        """Whether everything but perhaps the usage is here."""
        return self.done or bool(self._finish)

    def reply(self, model: str, names: Names) -> ModelReply:
        """The whole answer. Raises Transient if the stream broke off."""
        if not self.complete:
            raise Transient("The model's answer broke off in the middle.", ErrorCode.CONNECTION)
        if self._finish in _BROKEN_OFF:
            raise Transient("The provider gave up in the middle.", ErrorCode.OVERLOADED)
        calls = self._calls.finished(names)
        finish = _FINISHED.get(self._finish)
        if finish is None:  # some say `stop` beside tool calls, or a word of their own
            finish = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        return ModelReply("".join(self._text), calls, finish, self._usage, self._model or model)

    def _read(self, events: list[bytes]) -> str:
        pieces: list[str] = []
        for data in events:
            if self.done:
                break
            if data.strip() == b"[DONE]":
                self.done = True
            elif data:
                try:
                    self._chunk(_parse(data), pieces)
                except (ValueError, TypeError, AttributeError, LookupError) as error:
                    raise Transient(
                        "The model sent something that cannot be read.", ErrorCode.INVALID_RESPONSE
                    ) from error
        if not pieces:
            return ""
        text = clean("".join(pieces))
        self._text.append(text)
        return text

    def _chunk(self, chunk: dict[str, Any], pieces: list[str]) -> None:
        if chunk.get("error"):
            raise from_stream(chunk["error"])
        self._model = self._model or chunk.get("model") or ""
        if usage := chunk.get("usage"):
            self._usage = _usage(usage)
        choices = chunk.get("choices")
        if not choices or self._finish:  # after the end only usage counts: final chunks repeat
            return
        choice = choices[0]
        if delta := choice.get("delta"):
            if text := delta.get("content") or delta.get("refusal"):
                pieces.append(text if isinstance(text, str) else _joined(text))
            for call in delta.get("tool_calls") or ():
                self._calls.take(call)
        self._finish = choice.get("finish_reason") or ""


def _parse(data: bytes) -> dict[str, Any]:
    try:
        chunk: Any = jiter.from_json(data)
    except ValueError:
        chunk = json.loads(data)  # more lenient: lone surrogates, which `clean` replaces
    if not isinstance(chunk, dict):
        raise TypeError("a chunk is an object")
    return cast("dict[str, Any]", chunk)


def _joined(parts: list[dict[str, Any]]) -> str:
    """Content in parts, as a few providers send it."""
    return "".join(part.get("text") or "" for part in parts)


def _usage(usage: dict[str, Any]) -> Usage:
    details: dict[str, Any] = usage.get("prompt_tokens_details") or {}
    cached: Any = details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0
    return Usage(
        int(usage.get("prompt_tokens") or 0),
        int(usage.get("completion_tokens") or 0),
        int(cached),
    )


class _Call:
    __slots__ = ("arguments", "id", "name")

    def __init__(self, id: str) -> None:
        self.id = id
        self.name = ""
        self.arguments: list[str] = []


class _Calls:
    """Tool calls from pieces that come split, interleaved, without ids or without an index."""

    def __init__(self) -> None:
        self._all: list[_Call] = []
        self._open: dict[int | None, _Call] = {}  # by index

    def take(self, piece: dict[str, Any]) -> None:
        index, id = piece.get("index"), piece.get("id") or ""
        function: dict[str, Any] = piece.get("function") or {}
        name, arguments = function.get("name") or "", function.get("arguments")
        call = self._open.get(index)
        if call is None or _starts_another(call, index, id, name):
            call = self._open[index] = _Call(id)
            self._all.append(call)
        call.id = call.id or id
        if name and name != call.name and (not call.name or not (id or call.arguments)):
            call.name += name  # in pieces; a name that is merely repeated is not added
        if arguments:
            call.arguments.append(
                arguments if isinstance(arguments, str) else json.dumps(arguments)
            )

    def finished(self, names: Names) -> tuple[ToolCall, ...]:
        named = [call for call in self._all if call.name]
        if len(named) < len(self._all):
            _log.warning("model.nameless_tool_call", count=len(self._all) - len(named))
        return tuple(
            ToolCall(
                call.id or f"call_{number}",
                names.inward(clean(call.name)),
                _whole(clean("".join(call.arguments))),
            )
            for number, call in enumerate(named)
        )


def _starts_another(call: _Call, index: int | None, id: str, name: str) -> bool:
    """Some providers give every call the index 0, or none at all."""
    if not name:
        return False
    if id and call.id:
        return id != call.id
    return index is None and bool(call.name)


def _whole(arguments: str) -> str:
    return "{}" if arguments.strip() in ("", "null") else arguments
