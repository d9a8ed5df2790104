"""An answer as the bytes of the OpenAI wire format, streamed or whole. Pure and fast."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from standin.directives import Behaviour, ToolUse
from standin.request import ChatRequest
from standin.rules import Plan

_ID = "chatcmpl-standin"
_CREATED = 1_767_225_600  # always the same: 2026-01-01T00:00:00Z
_ARGUMENT_PIECE = 12  # characters of a tool call's arguments per chunk
_KEEPALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class Frames:
    """A streamed answer: `first` (the role), `body` (what `…_after` counts), `last`."""

    first: bytes
    body: tuple[bytes, ...]
    last: bytes


@dataclass(frozen=True, slots=True)
class Tokens:
    prompt: int
    completion: int
    cached: int

    @property
    def wire(self) -> dict[str, Any]:
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }


def estimate(text: str) -> int:
    """Tokens of a text: a quarter of its UTF-8 bytes, rounded up."""
    return (len(text.encode(errors="replace")) + 3) // 4


def count(request: ChatRequest, plan: Plan) -> Tokens:
    """Deterministic: everything before the last user message counts as cached, in blocks of 64."""
    tools = sum(estimate(tool.model_dump_json()) for tool in request.tools or ())
    sizes = [
        4 + estimate(m.text) + sum(estimate(c.function.arguments) for c in m.tool_calls or ())
        for m in request.messages
    ]
    users = [index for index, m in enumerate(request.messages) if m.role == "user"]
    before = tools + sum(sizes[: users[-1]]) if users else 0
    completion = len(plan.pieces) + sum(8 + estimate(call.arguments) for call in plan.calls)
    return Tokens(tools + sum(sizes), completion, before // 64 * 64)


def streamed(request: ChatRequest, plan: Plan, behaviour: Behaviour) -> Frames:
    """The frames of a streamed answer."""
    head, tail = _shell(request.model)
    content = None if behaviour.null_content else ""
    first = head + _json({"role": "assistant", "content": content}) + tail
    body = [head + b'{"content":' + piece + b"}" + tail for piece in _encoded(plan.pieces)]
    for delta in _call_deltas(plan.calls, behaviour):
        if behaviour.null_content:
            delta["content"] = None
        body.append(head + _json(delta) + tail)
    if behaviour.keepalive:
        first, body = _KEEPALIVE + first, [_KEEPALIVE + frame for frame in body]
    return _line_ends(Frames(first, tuple(body), _last(request, plan, behaviour)), behaviour)


def _last(request: ChatRequest, plan: Plan, behaviour: Behaviour) -> bytes:
    head, _ = _shell(request.model)
    finish = b'},"finish_reason":' + _json(plan.finish) + b"}]}\n\n"
    final = head + b"{" + finish
    if behaviour.repeat_final:
        # As some gateways do: the last piece comes again with the repeated finish reason.
        again = b'"content":' + _encoded(plan.pieces[-1:])[0] if plan.pieces else b""
        final += head + b"{" + again + finish
    if request.stream_options.include_usage and not behaviour.no_usage:
        usage: dict[str, Any] = {
            **_envelope(request.model),
            "choices": [],
            "usage": count(request, plan).wire,
        }
        final += b"data: " + _json(usage) + b"\n\n"
    return final + (b"" if behaviour.no_done else DONE)


def _line_ends(frames: Frames, behaviour: Behaviour) -> Frames:
    if not behaviour.crlf:
        return frames
    body = tuple(frame.replace(b"\n", b"\r\n") for frame in frames.body)
    first, last = (part.replace(b"\n", b"\r\n") for part in (frames.first, frames.last))
    return Frames(first, body, last)


def _call_deltas(calls: Sequence[ToolUse], behaviour: Behaviour) -> Iterator[dict[str, Any]]:
    """Each call announced, then its arguments in pieces; interleaved if told to."""
    streams = [_one_call(index, call, behaviour) for index, call in enumerate(calls)]
    if not behaviour.two_calls:
        for stream in streams:
            yield from stream
        return
    while streams:
        for stream in tuple(streams):
            delta = next(stream, None)
            if delta is None:
                streams.remove(stream)
            else:
                yield delta


def _one_call(index: int, call: ToolUse, behaviour: Behaviour) -> Iterator[dict[str, Any]]:
    size = 2 if behaviour.two_calls else _ARGUMENT_PIECE
    start: dict[str, Any] = {"index": index, "id": f"call_{index}", "type": "function"}
    if behaviour.missing_ids:
        del start["id"]
    start["function"] = {"name": call.name, "arguments": ""}
    yield {"tool_calls": [start]}
    for at in range(0, len(call.arguments), size):
        piece = {"arguments": call.arguments[at : at + size]}
        yield {"tool_calls": [{"index": index, "function": piece}]}


def whole(request: ChatRequest, plan: Plan) -> bytes:
    """The JSON of an answer that was not asked for as a stream."""
    message: dict[str, Any] = {"role": "assistant", "content": "".join(plan.pieces) or None}
    if plan.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for index, call in enumerate(plan.calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": plan.finish}
    envelope = {**_envelope(request.model), "object": "chat.completion", "choices": [choice]}
    return _json({**envelope, "usage": count(request, plan).wire})


def error(message: str, kind: str, code: str | None) -> bytes:
    return _json({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _envelope(model: str) -> dict[str, Any]:
    return {
        "id": _ID,
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": model,
        "system_fingerprint": "standin-not-a-language-model",
    }


@lru_cache(maxsize=64)
def _shell(model: str) -> tuple[bytes, bytes]:
    """What stands before and after the delta of an ordinary chunk."""
    head = b"data: " + _json(_envelope(model))[:-1] + b',"choices":[{"index":0,"delta":'
    return head, b',"finish_reason":null}]}\n\n'


@lru_cache(maxsize=256)
def _encoded(pieces: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(_json(piece) for piece in pieces)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
