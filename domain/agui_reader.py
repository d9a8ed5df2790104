"""What one reader of a run has been told, and what of the run concerns it. Pure."""

from dataclasses import dataclass

from domain.agui_shapes import Frame
from domain.events import (
    TEXT_START,
    Recorded,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    TurnStarted,
    position,
    split,
)
from domain.messages import Usage

NOTHING_SPENT = Usage()
TERMINAL = TEXT_START - 1
"""The place of an event's last frame: nothing of it comes after."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A frame and its SSE id. No id: it concerns this reader's connection, not the run."""

    id: int | None
    frame: Frame


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """The model call in hand, as this reader holds it."""

    seq: int  # of its TurnStarted
    message_id: str
    started: bool = False  # TEXT_MESSAGE_START is out
    out: int = 0  # characters of its text that are out
    gap: bool = False  # a piece was missing: the rest comes whole


@dataclass(frozen=True, slots=True)
class Reader:
    """What one reader of a run has been told.

    cursor: the last id it holds, frames up to it are not sent again (-1: nothing yet);
    modern: it speaks protocol 1.0;
    holds: ids of the messages on its screen, in their order, as far as it told them;
    segment: the stretch of the run that it reads, between two requests of the client.
    """

    modern: bool = False
    cursor: int = -1
    holds: tuple[str, ...] = ()
    segment: int = 0
    at: int = 0  # the segment that the events are in
    spent: Usage = NOTHING_SPENT  # of segments before
    thread_id: str = ""
    run_id: str = ""
    step: str | None = None
    turn: OpenTurn | None = None
    unanswered: tuple[str, ...] = ()  # tool calls without a result

    @property
    def text_open(self) -> bool:
        return self.turn is not None and self.turn.started


def end_of(seq: int) -> int:
    """The id that says: everything of durable event `seq` is held, nothing of what follows."""
    return position(seq, TERMINAL)


def snapshot_through(event: object) -> int | None:
    """The session seq up to which `encode` wants the conversation for this event, if it does."""
    match event:
        case RunStarted() | RunPaused() | RunResumed():
            return event.messages_through
        case TurnStarted() if event.supersedes is not None:
            return event.messages_through
        case _:
            return None


def ends(reader: Reader, item: Recorded) -> bool:
    """Whether `item`, just encoded for this reader, was its last."""
    paused = isinstance(item.event, RunPaused) and reader.at == reader.segment
    return paused or isinstance(item.event, RunFinished)


def concerns(reader: Reader, item: Recorded) -> bool:
    """Whether `item`, yet to be encoded, can come to frames for this reader."""
    event = item.event
    at = event.number if isinstance(event, RunResumed) else reader.at
    return at == reader.segment and item.seq >= split(reader.cursor)[0]
