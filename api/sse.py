"""The wire: frames of a run as server-sent events. `emit` is the one place that writes them."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence

import structlog
from ag_ui.core import events as ag
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from api.state import Services
from domain import agui, agui_shapes
from domain.agui_reader import Numbered, Reader, concerns, ends, snapshot_through
from domain.agui_shapes import Frame
from domain.events import Recorded, RunPaused
from domain.messages import Message
from domain.runs import Run
from domain.text import cleaned

_log = structlog.get_logger(__name__)

_MODELS: tuple[type[BaseModel], ...] = (
    *(ag.RunStartedEvent, ag.RunFinishedEvent, ag.RunErrorEvent),
    *(ag.StepStartedEvent, ag.StepFinishedEvent),
    *(ag.StateSnapshotEvent, ag.MessagesSnapshotEvent, ag.CustomEvent),
    *(ag.TextMessageStartEvent, ag.TextMessageContentEvent, ag.TextMessageEndEvent),
    *(ag.ToolCallStartEvent, ag.ToolCallArgsEvent, ag.ToolCallEndEvent, ag.ToolCallResultEvent),
)
FIELDS: Mapping[str, frozenset[str]] = {
    model.model_fields["type"].default.value: frozenset(
        info.alias or name for name, info in model.model_fields.items()
    )
    for model in _MODELS
}
"""Per frame type, the members that AG-UI knows. Anything else would be read by nobody."""

_SNAPSHOT_CHARACTERS = 2_000_000  # clients refuse a frame over 10 MiB
# Legal in JSON, but some SSE readers take them for the end of a line.
_LINE_ENDS = str.maketrans({"\u0085": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})

_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
HELLO, _HEARTBEAT = b": varve\n\n", b": heartbeat\n\n"


def emit(numbered: Numbered) -> bytes:
    """A frame as bytes, with its id. An unknown member or an empty delta never leaves."""
    frame = numbered.frame
    if frame.get("delta") == "":
        return b""
    extra = frame.keys() - FIELDS[frame["type"]]
    if extra:
        _log.error("frame_with_unknown_members", type=frame["type"], members=sorted(extra))
    known = {key: value for key, value in frame.items() if key not in extra and value is not None}
    head = b"" if numbered.id is None else b"id: %d\n" % numbered.id
    return head + b"data: " + _json(known) + b"\n\n"


def _json(value: Frame) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        if "\\u0000" in text:  # NUL, or those six characters: look closer
            raise ValueError
        return text.translate(_LINE_ENDS).encode()
    except ValueError:  # lone surrogates too
        text = json.dumps(cleaned(value), ensure_ascii=False, separators=(",", ":"))
        return text.translate(_LINE_ENDS).encode()


def stream(
    services: Services,
    run: Run,
    *,
    modern: bool,
    cursor: int | None,
    holds: Sequence[str] = (),
    segment: int = 0,
) -> StreamingResponse:
    """A segment of the run from its beginning, or from behind `cursor`, until it ends.

    holds: ids of the messages that the client has. A client that goes away cancels this reader
    and nothing else.
    """
    at = -1 if cursor is None else cursor
    reader = Reader(modern=modern, cursor=at, holds=tuple(holds), segment=segment)
    return streamed(_frames(services, run, reader))


def streamed(frames: AsyncGenerator[bytes]) -> StreamingResponse:
    return StreamingResponse(frames, media_type="text/event-stream", headers=_HEADERS)


async def _frames(services: Services, run: Run, reader: Reader) -> AsyncGenerator[bytes]:
    """Never raises: a stream that breaks says so, since one that just ends reads as success."""
    yield HELLO
    cursor = reader.cursor if reader.cursor >= 0 else None
    try:
        async with services.live.reading(run.key, cursor, ended=run.status.ended) as items:
            async for item in items:
                if item is None:
                    yield _HEARTBEAT
                    continue
                conversation = await _conversation(services, run, reader, item)
                questions = await _questions(services, reader, item)
                reader, numbered = agui.encode(reader, item, conversation, questions)
                if numbered:
                    yield b"".join(emit(one) for one in numbered)
                if ends(reader, item):
                    return
    except Exception:
        _log.exception("stream_broke", run_key=str(run.key))
    yield emit(Numbered(None, _BROKEN))


_BROKEN: Frame = {
    "type": "RUN_ERROR",
    "code": "stream_closed",
    "message": "The connection was closed by the server. The run goes on: reconnect to follow it.",
}


async def _conversation(
    services: Services, run: Run, reader: Reader, item: Recorded
) -> Sequence[Message]:
    """What a snapshot of this event shows; nothing where the reader has the snapshot already."""
    through = snapshot_through(item.event)
    if through is None or not concerns(reader, item):
        return ()
    return bounded(await services.messages.conversation(run.session_key, through))


async def _questions(services: Services, reader: Reader, item: Recorded) -> Sequence[Frame]:
    """What a pause leaves open, as interrupts."""
    if not isinstance(item.event, RunPaused) or not concerns(reader, item):
        return ()
    asked = await services.checkpoints.by_ids(item.event.checkpoint_ids)
    return [agui_shapes.interrupt(each) for each in asked]


def bounded(messages: Sequence[Message]) -> Sequence[Message]:
    """The newest messages that fit into one frame: all of them, but for monstrous sessions."""
    room = _SNAPSHOT_CHARACTERS
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        room -= len(message.content) + sum(len(call.arguments) for call in message.tool_calls)
        if room < 0:
            return messages[place + 1 :]
    return messages
