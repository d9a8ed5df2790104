"""A run: one workflow execution answering one request. What crosses Temporal is here: ids only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from domain.desk import Manners
from domain.errors import ErrorCode
from domain.events import RunStatus
from domain.jobs import Part
from domain.messages import Message, Origin, Usage
from domain.profiles import SessionType
from domain.tools import Denier, ToolList


class Placement(StrEnum):
    """Where the steps that only touch our database run.

    lean: inside the workflow task, as local activities, or with their neighbour (fewer events,
    faster).
    ordinary: each as an activity of its own (every step visible in the Temporal UI, slower).
    """

    LEAN = "lean"
    ORDINARY = "ordinary"


@dataclass(frozen=True, slots=True)
class AgentRunInput:
    """Which run, and how far it is: the rest is carried over continue-as-new."""

    run_key: UUID
    turn: int = 0  # completed model calls
    tool_tokens: int = 0  # size of all tool results so far
    message_id: str | None = None  # the last message of the model
    over_cost: bool = False  # its max_cost_usd is spent
    waited_s: float = 0.0  # for people; not part of its time
    put: tuple[datetime, ...] = ()  # when people were asked lately
    cost_step: int = 0  # about what it costs people were asked so often
    queued: bool = False  # it has to be admitted to its session first


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What the caller asked for, beside the messages."""

    profile: str | None = None
    tools: ToolList = None  # the declared list; None = everything registered
    context: tuple[tuple[str, str], ...] = ()  # (description, value) pairs about the app
    protocol: str | None = None  # AG-UI version the client declared; no part of the request itself
    inline: str | None = None  # a profile as JSON text, instead of the name of one
    window: tuple[Part, ...] = ()  # what a memory run reads, instead of its own session
    webhook: str | None = None  # URL that is told of its end
    job_id: UUID | None = None  # the job it is a run of, and the slot
    slot: str | None = None


class OnBusy(StrEnum):
    """What becomes of a request whose session is at work."""

    REJECT = "reject"
    ENQUEUE = "enqueue"  # it waits its turn
    INTERRUPT = "interrupt"  # the run at work is stopped, what it said stays
    ROLLBACK = "rollback"  # the run at work is stopped, and it is as if it had not been


@dataclass(frozen=True, slots=True)
class NewRun:
    """A request to run. `messages`: the trailing user messages the client sent, ids its own;
    `history`: what was said before elsewhere, brought into a new session."""

    owner_id: UUID
    thread_id: str
    run_id: str
    request: RunRequest
    messages: tuple[Message, ...]
    origin: Origin = Origin.CHAT
    session_type: SessionType = SessionType.CHAT
    on_busy: OnBusy = OnBusy.REJECT
    not_before: datetime | None = None
    idempotency_key: str | None = None
    history: tuple[Message, ...] = ()
    again: bool = False  # no new message: the last one is answered once more


@dataclass(frozen=True, slots=True)
class Run:
    """A run as the database has it."""

    key: UUID
    owner_id: UUID
    session_key: UUID
    thread_id: str
    run_id: str
    origin: Origin
    status: RunStatus
    request: RunRequest
    profile: str | None  # the name, once resolved
    executor: str | None
    usage: Usage
    cost_micro_usd: int
    turns: int
    last_seq: int
    error_code: str | None
    error_message: str | None
    limit: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    segment: int = 0  # the number of its latest
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Waits of a run, all configurable, in seconds."""

    heartbeat_s: float = 5.0
    retry_s: float = 1.0  # before the first retry; doubles after
    model_attempts: int = 6
    tool_attempts: int = 3


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What `runs.begin` froze into the run, as far as the workflow needs it."""

    profile: str
    executor: str
    models: tuple[str, ...]  # primary, then fallbacks
    max_turns: int
    turn_budget_tokens: int
    deadline: datetime
    timing: Timing
    model_queue: str | None  # None: the workflow's own queue
    tool_queue: str | None
    placement: Placement
    manners: Manners = field(default_factory=Manners)


@dataclass(frozen=True, slots=True)
class CallRef:
    """A tool call of a turn, by reference; its arguments stay in the message row. `review`: a
    person may have to be asked first."""

    call_id: str
    name: str
    refused_by: Denier | None
    quick: bool
    parallel_safe: bool
    idempotent: bool
    timeout_s: float
    review: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run did end: not always as asked, when it had ended before. `next_run`: key of the
    run whose turn it is now."""

    status: RunStatus
    cost_micro_usd: int
    next_run: UUID | None = None


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a model turn left behind: a message id and what to do next. `ended`: nothing, the run
    ended with it. `invalid`: why the answer is not in the form that was asked for."""

    message_id: str
    calls: tuple[CallRef, ...]
    finish_reason: str
    over_cost: bool = False  # the run has spent its max_cost_usd
    ended: Ended | None = None
    invalid: str | None = None
    cost_step: int = 0  # 1: it has cost what a person is asked about; 2: twice that; 3: four times


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends: the terminal state and why, in words a person understands."""

    status: RunStatus
    code: str | None = None
    message: str | None = None
    limit: str | None = None


@dataclass(frozen=True, slots=True)
class AgentRunResult:
    status: RunStatus
    turns: int
    message_id: str | None
    limit: str | None = None


def limit_reached(plan: RunPlan, state: AgentRunInput) -> str | None:
    """The limit that makes the next turn the last one, without tools; None if there is none."""
    if state.turn >= plan.max_turns - 1:
        return "max_turns"
    if state.over_cost:
        return "max_cost_usd"
    return "turn_budget_tokens" if state.tool_tokens >= plan.turn_budget_tokens else None


def may_repair(plan: RunPlan, state: AgentRunInput) -> bool:
    """Whether a run whose one answer is invalid may ask for it once more."""
    return state.turn == 1 < plan.max_turns and not state.over_cost


MAX_PARALLEL_CALLS = 8


def waves(calls: Sequence[CallRef]) -> list[list[CallRef]]:
    """Calls of one turn in the order they may run: each wave side by side, the waves one by one.

    A call that is not parallel-safe has a wave of its own; no wave is larger than eight.
    """
    out: list[list[CallRef]] = []
    for call in calls:
        joins = (
            out
            and call.parallel_safe
            and out[-1][-1].parallel_safe
            and len(out[-1]) < MAX_PARALLEL_CALLS
        )
        if joins:
            out[-1].append(call)
        else:
            out.append([call])
    return out


_EXPLAINED = {
    ErrorCode.RATE_LIMIT: "The model provider is limiting requests; try again in a while.",
    ErrorCode.OVERLOADED: "The model provider is overloaded; try again in a while.",
    ErrorCode.TIMEOUT: "The model took too long to answer.",
    ErrorCode.CONNECTION: "The model provider could not be reached.",
}


def ending_of_failure(code: str | None, message: str, timed_out: bool) -> Ending:
    """How a run ends when a step failed for good. `code`: the type of the error behind it."""
    if timed_out:
        text = "The run reached its time limit."
        return Ending(RunStatus.FAILED, ErrorCode.TIMEOUT, text, limit="timeout_s")
    known = next((c for c in ErrorCode if c == code), None)
    if known is None:
        return Ending(RunStatus.FAILED, code or ErrorCode.INTERNAL, message)
    return Ending(RunStatus.FAILED, known, _EXPLAINED.get(known, message))
