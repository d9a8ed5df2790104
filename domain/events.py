"""Everything a run tells the outside: the one event vocabulary, and how events are numbered.

Durable events are kept in PostgreSQL and numbered densely per run (`seq` 1, 2, 3 …). Text deltas
are live only. Both share one strictly increasing integer, the *position*, which is the SSE id:

    position = seq * 10_000_000 + offset
    offset 0 … 999_999            the frames that the durable event `seq` turns into, in order
    offset 1_000_000              the start of the text streamed after TurnStarted `seq`
    offset 1_000_000 + n          the text up to and including its n-th character

A position therefore says exactly which characters a reader holds. That makes a reconnect right
even when every delta is gone (Redis lost, stream trimmed): the rest is cut from the stored text.
It also fences: a late attempt's deltas carry an older `seq`, so the stream store refuses them and
every reader drops them. See docs/decisions/0004-event-positions.md.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from domain.checkpoints import Change, Scenario, Severity, Via
from domain.messages import Usage
from domain.tools import ToolCall, ToolStatus

SPAN = 10_000_000
TEXT_START = 1_000_000
MAX_TEXT = SPAN - TEXT_START - 1  # characters of one turn


def position(seq: int, offset: int = 0) -> int:
    return seq * SPAN + offset


def text_position(seq: int, characters: int) -> int:
    """Where the text streamed after TurnStarted `seq` stands once `characters` are out."""
    return seq * SPAN + TEXT_START + min(characters, MAX_TEXT)


def split(value: int) -> tuple[int, int]:
    """(seq, offset) of a position."""
    return divmod(value, SPAN)


class RunStatus(StrEnum):
    QUEUED = "queued"  # its session is at work, or its time has not come
    ACCEPTED = "accepted"  # the row is written, the workflow not yet seen
    RUNNING = "running"
    WAITING = "waiting"  # running, and at a standstill until a person answers
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        return self in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run was accepted. `messages_through`: the session's last message seq at that moment."""

    thread_id: str
    run_id: str
    messages_through: int
    kind: Literal["run_started"] = "run_started"


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A model call begins. `supersedes`: the message id of an earlier attempt that died."""

    turn: int
    attempt: int  # 1, 2, … of this turn
    message_id: str
    executor: str  # worker | memory: the AG-UI step name
    messages_through: int
    supersedes: str | None = None
    kind: Literal["turn_started"] = "turn_started"


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Live only. `end`: characters of the message out once this delta is; len(text) ≤ end."""

    message_id: str
    text: str
    end: int
    kind: Literal["text_delta"] = "text_delta"


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """The model call is over and its message stored. Text and calls live in the message row."""

    turn: int
    message_id: str
    executor: str
    finish_reason: str
    text: str = ""  # filled from the message row when read
    tool_calls: tuple[ToolCall, ...] = ()  # likewise
    kind: Literal["turn_completed"] = "turn_completed"


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call has its one result, stored as a message."""

    call_id: str
    name: str
    status: ToolStatus
    message_id: str
    reason: str | None = None
    content: str = ""  # filled from the message row when read
    kind: Literal["tool_finished"] = "tool_finished"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a client may show and may ignore; `name` starts with `varve.`."""

    name: str
    value: dict[str, Any]
    kind: Literal["notice"] = "notice"


@dataclass(frozen=True, slots=True)
class CheckpointChanged:
    """A question was put, answered, … to a person. What it says is in its row: no text is here."""

    checkpoint_id: str
    change: Change
    scenario: Scenario
    severity: Severity
    blocking: bool
    title: str
    call_id: str | None = None
    deadline_ms: int | None = None  # Unix time in milliseconds
    reminders: int = 0  # that were sent
    action: str | None = None  # once it is answered, and what holds when it expired
    via: Via | None = None
    kind: Literal["checkpoint"] = "checkpoint"


@dataclass(frozen=True, slots=True)
class RunPaused:
    """The run waits for people and nothing else: its segment ends. `usage`: of the run so far;
    `checkpoint_ids`: the open questions, in the order in which they were put."""

    checkpoint_ids: tuple[str, ...]
    messages_through: int
    usage: Usage
    kind: Literal["run_paused"] = "run_paused"


@dataclass(frozen=True, slots=True)
class RunResumed:
    """Somebody answered, and the run goes on as segment `number`, which a client knows as
    `run_id`."""

    run_id: str
    number: int  # 1, 2, …
    messages_through: int
    kind: Literal["run_resumed"] = "run_resumed"


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The one terminal event. `limit`: which limit cut it short, if one did."""

    status: RunStatus
    usage: Usage
    code: str | None = None  # for failed
    message: str | None = None  # for failed and interrupted, in words a person understands
    limit: str | None = None
    kind: Literal["run_finished"] = "run_finished"


DurableEvent = (
    RunStarted
    | TurnStarted
    | TurnCompleted
    | ToolFinished
    | Notice
    | CheckpointChanged
    | RunPaused
    | RunResumed
    | RunFinished
)
RunEvent = DurableEvent | TextDelta


@dataclass(frozen=True, slots=True)
class Recorded:
    """An event with its place in the run. For a durable event `position` is that of its first
    frame (offset 0); for a delta, of its last character."""

    position: int
    at_ms: int  # Unix time in milliseconds
    event: RunEvent

    @property
    def seq(self) -> int:
        return self.position // SPAN
