"""AG-UI as a pure encoder of our events: an event in, numbered frames out.

Every frame has its own id. The frames of durable event `seq` have fixed places, position(seq, k);
a frame that this reader does not need leaves its place empty, so an id never depends on what was
lost on the way. Text has the ids of its characters (domain/events.py). A reader that comes back
with the last id it saw is therefore told exactly the rest: the encoder replays the durable events
silently and lets out only what lies behind the cursor.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from domain import agui_shapes as shapes
from domain.agui_reader import TERMINAL, Numbered, OpenTurn, Reader
from domain.agui_shapes import Frame
from domain.events import (
    MAX_TEXT,
    TEXT_START,
    CheckpointChanged,
    DurableEvent,
    Notice,
    Recorded,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStatus,
    TextDelta,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
    position,
    split,
    text_position,
)
from domain.ids import tool_message_id
from domain.messages import Message, Usage

PROTOCOL_VERSION = "1.0"

Placed = list[tuple[int | None, Frame]]  # (place within the event, frame); None: without an id

# Places. START, CONTENT and END of a message that was not streamed whole; calls follow.
_START, _CONTENT, _END, _CALLS = range(4)
_FRAMES_PER_CALL = 3


def encode(
    reader: Reader,
    item: Recorded,
    conversation: Sequence[Message] = (),
    interrupts: Sequence[Frame] = (),
) -> tuple[Reader, list[Numbered]]:
    """The frames that `item` means to this reader, and what it holds afterwards.

    conversation: the session's visible messages up to `snapshot_through(item.event)`;
    interrupts: the questions of a RunPaused, as `agui_shapes.interrupt` has them. Neither is needed
    for what does not `concern` the reader.
    """
    event = item.event
    if isinstance(event, TextDelta):
        reader, frames = _text_delta(reader, item.seq, event)
    else:
        reader, placed = _durable(reader, item.seq, event, conversation, interrupts)
        frames = [
            Numbered(None if place is None else position(item.seq, place), frame)
            for place, frame in placed
        ]
    if reader.at != reader.segment:
        return reader, []
    for numbered in frames:
        numbered.frame["timestamp"] = item.at_ms
    return reader, [n for n in frames if n.id is None or n.id > reader.cursor]


def _durable(
    reader: Reader,
    seq: int,
    event: DurableEvent,
    conversation: Sequence[Message],
    interrupts: Sequence[Frame],
) -> tuple[Reader, Placed]:
    match event:
        case RunStarted():
            return _run_started(reader, event, conversation)
        case TurnStarted():
            return _turn_started(reader, seq, event, conversation)
        case TurnCompleted():
            return _turn_completed(reader, event)
        case ToolFinished():
            return _tool_finished(reader, event)
        case Notice():
            return reader, [(0, shapes.custom(event.name, event.value))]
        case CheckpointChanged():
            return reader, [(0, shapes.custom("varve.checkpoint", shapes.change(event)))]
        case RunPaused():
            return _run_paused(reader, event, conversation, interrupts)
        case RunResumed():
            return _run_resumed(reader, event, conversation)
        case RunFinished():
            return _run_finished(reader, event)
        case _:
            assert_never(event)


def _run_started(
    reader: Reader, event: RunStarted, conversation: Sequence[Message]
) -> tuple[Reader, Placed]:
    reader = replace(reader, thread_id=event.thread_id, run_id=event.run_id)
    return reader, _beginning(reader, shapes.messages(conversation))


def _run_resumed(
    reader: Reader, event: RunResumed, conversation: Sequence[Message]
) -> tuple[Reader, Placed]:
    reader = replace(reader, run_id=event.run_id, at=event.number)
    return reader, _beginning(reader, shapes.messages(conversation, pending=reader.unanswered))


def _beginning(reader: Reader, truth: list[Frame]) -> Placed:
    ids = {"threadId": reader.thread_id, "runId": reader.run_id}
    placed: Placed = [
        (0, {"type": "RUN_STARTED", **ids, "protocolVersion": PROTOCOL_VERSION}),
        (1, {"type": "STATE_SNAPSHOT", "snapshot": {}}),
    ]
    if reader.cursor < 0 and (kept := _misplaced(reader.holds, truth)) is not None:
        placed.append((None, {"type": "MESSAGES_SNAPSHOT", "messages": kept}))
    placed.append((2, {"type": "MESSAGES_SNAPSHOT", "messages": truth}))
    return placed


def _run_paused(
    reader: Reader,
    event: RunPaused,
    conversation: Sequence[Message],
    interrupts: Sequence[Frame],
) -> tuple[Reader, Placed]:
    """The questions end this segment; the calls that wait for an answer stay without a result."""
    truth = shapes.messages(conversation, pending=reader.unanswered)
    outcome = {"type": "interrupt", "interrupts": list(interrupts)}
    usage = _usage(event.usage - reader.spent)
    return replace(reader, spent=event.usage), [
        (0, {"type": "STATE_SNAPSHOT", "snapshot": {}}),
        (1, {"type": "MESSAGES_SNAPSHOT", "messages": truth}),
        (TERMINAL, {**_finished(reader), "outcome": outcome, **usage}),
    ]


def _misplaced(holds: Sequence[str], truth: list[Frame]) -> list[Frame] | None:
    """What of the truth a client must be cut back to before it is told the whole; None: nothing.

    Clients keep the messages they have where they are and add the others behind them. One that
    missed a turn (another device had it) would show its new question before that turn for ever.
    """
    ids = [message["id"] for message in truth]
    known = set(ids)
    kept = [id for id in dict.fromkeys(holds) if id in known]
    right = 0
    while right < len(kept) and kept[right] == ids[right]:
        right += 1
    return None if right == len(kept) else truth[:right]


def _turn_started(
    reader: Reader, seq: int, event: TurnStarted, conversation: Sequence[Message]
) -> tuple[Reader, Placed]:
    placed: Placed = []
    if event.supersedes is not None:
        if reader.text_open:
            placed.append((0, shapes.text_end(event.supersedes)))
        retry = {"turn": event.turn, "attempt": event.attempt, "supersedes": event.supersedes}
        snapshot = {"type": "MESSAGES_SNAPSHOT", "messages": shapes.messages(conversation)}
        placed += [(1, snapshot), (2, shapes.custom("varve.retry", retry))]
    if reader.step is None:
        placed.append((3, {"type": "STEP_STARTED", "stepName": event.executor}))
    at, offset = split(reader.cursor)
    turn = OpenTurn(seq, event.message_id)
    if at == seq and offset >= TEXT_START:  # it came back in the middle of this text
        turn = replace(turn, started=True, out=offset - TEXT_START)
    return replace(reader, step=event.executor, turn=turn), placed


def _text_delta(reader: Reader, seq: int, event: TextDelta) -> tuple[Reader, list[Numbered]]:
    turn = reader.turn
    if turn is None or (turn.seq, turn.message_id) != (seq, event.message_id):
        return reader, []  # of an attempt that is over
    start = event.end - len(event.text)
    if turn.gap or event.end <= turn.out or event.end > MAX_TEXT:
        return reader, []
    if start > turn.out:
        gap = {
            "messageId": event.message_id,
            "held": turn.out,
            "firstAvailable": text_position(seq, start),
            "lastAvailable": text_position(seq, event.end),
        }
        # No id: were it the reader's cursor, the missing piece would count as seen.
        return replace(reader, turn=replace(turn, gap=True)), [
            Numbered(None, shapes.custom("varve.gap", gap))
        ]
    frames: list[Numbered] = []
    if not turn.started:
        frames.append(Numbered(text_position(seq, 0), shapes.text_start(event.message_id)))
    content = shapes.text_content(event.message_id, event.text[turn.out - start :])
    frames.append(Numbered(text_position(seq, event.end), content))
    return replace(reader, turn=replace(turn, started=True, out=event.end)), frames


def _turn_completed(reader: Reader, event: TurnCompleted) -> tuple[Reader, Placed]:
    turn = reader.turn
    started, out = (turn.started, turn.out) if turn else (False, 0)
    placed: Placed = []
    if event.text and not started:
        placed.append((_START, shapes.text_start(event.message_id)))
    if rest := event.text[out:]:
        placed.append((_CONTENT, shapes.text_content(event.message_id, rest)))
    if event.text or started:
        placed.append((_END, shapes.text_end(event.message_id)))
    place = _CALLS
    for call in event.tool_calls:
        placed += enumerate(shapes.call_frames(call, event.message_id), place)
        place += _FRAMES_PER_CALL
    if reader.step is not None:
        placed.append((place, {"type": "STEP_FINISHED", "stepName": reader.step}))
    calls = tuple(call.id for call in event.tool_calls)
    return replace(reader, step=None, turn=None, unanswered=reader.unanswered + calls), placed


def _tool_finished(reader: Reader, event: ToolFinished) -> tuple[Reader, Placed]:
    left = tuple(call for call in reader.unanswered if call != event.call_id)
    return replace(reader, unanswered=left), [
        (0, shapes.call_result(event.call_id, event.message_id, event.content))
    ]


def _run_finished(reader: Reader, event: RunFinished) -> tuple[Reader, Placed]:
    placed: Placed = []
    if reader.turn is not None and reader.turn.started:
        placed.append((0, shapes.text_end(reader.turn.message_id)))
    if reader.step is not None:
        placed.append((1, {"type": "STEP_FINISHED", "stepName": reader.step}))
    for place, call in enumerate(reader.unanswered, 2):
        placed.append((place, shapes.call_result(call, tool_message_id(call), shapes.NO_RESULT)))
    placed.append((TERMINAL, _terminal(reader, event)))
    return replace(reader, step=None, turn=None, unanswered=()), placed


def _terminal(reader: Reader, event: RunFinished) -> Frame:
    usage, finished = _usage(event.usage - reader.spent), _finished(reader)
    match event.status:
        case RunStatus.COMPLETED:
            result = {"result": {"limit": event.limit}} if event.limit else {}
            return {**finished, **result, **usage}
        case RunStatus.INTERRUPTED if reader.modern:
            return {**finished, "outcome": {"type": "cancelled"}, **usage}
        case RunStatus.INTERRUPTED:
            message = event.message or "The run was interrupted."
            return {"type": "RUN_ERROR", "message": message, "code": "cancelled", **usage}
        case _:
            message = event.message or "The run failed."
            return {
                "type": "RUN_ERROR",
                "message": message,
                "code": event.code or "internal",
            } | usage


def _finished(reader: Reader) -> Frame:
    return {"type": "RUN_FINISHED", "threadId": reader.thread_id, "runId": reader.run_id}


def _usage(tokens: Usage) -> Frame:
    return {"usage": [shapes.usage(tokens)]} if tokens != Usage() else {}
