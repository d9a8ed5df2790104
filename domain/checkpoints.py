"""Checkpoints: questions to people and notices, when they are put, and what silence means. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid5

_CHECKPOINTS = UUID("6f1d3c1e-52a7-5c0e-9c55-0a5f6f9b7e03")


def checkpoint_id(run_key: UUID, subject: str) -> UUID:
    """`subject`: what it is about within its run, a tool call's id for one."""
    return uuid5(_CHECKPOINTS, f"{run_key}:{subject}")


class Scenario(StrEnum):
    """I1 to I9 of the design, in this order."""

    CLARIFICATION = "clarification"
    CAPABILITY = "capability"
    HIGH_RISK = "high_risk"
    LOW_CONFIDENCE = "low_confidence"
    MISSING_INPUT = "missing_input"
    LOW_QUALITY = "low_quality"
    RETRIES_EXHAUSTED = "retries_exhausted"
    COST = "cost"
    MILESTONE = "milestone"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class ActionType(StrEnum):
    SELECT = "select"  # one of several, given without more
    CONFIRM = "confirm"  # the same, and to be confirmed
    TEXT_INPUT = "text_input"  # with a text


class State(StrEnum):
    QUEUED = "queued"  # waits until people may be asked again
    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"  # its deadline passed, `on_timeout` holds
    CANCELLED = "cancelled"  # its run ended
    NOTED = "noted"  # a notice: nothing is asked

    @property
    def pending(self) -> bool:
        return self in (State.QUEUED, State.OPEN)


class OnTimeout(StrEnum):
    """What holds when nobody answers in time."""

    DECIDE = "decide"  # the agent decides itself, and says what it assumed
    REFUSE = "refuse"
    DEFAULT = "default"  # the documented default, or the step is skipped
    CONTINUE = "continue"
    STOP = "stop"


class Via(StrEnum):
    """How an answer came."""

    AGUI = "agui"
    API = "api"
    SIGNAL = "signal"  # the engine's own command line or UI
    TIMEOUT = "timeout"
    RUN = "run"  # the run ended first


# Actions that this code acts upon. Other ids are the asker's own.
APPROVE = "approve"
APPROVE_SESSION = "approve_session"  # these arguments need no other approval in this session
EDIT = "edit"  # approve, with the arguments in `input`
DENY = "deny"
ANSWER = "answer"
SKIP = "skip"
CONTINUE = "continue"
STOP = "stop"
MODIFY = "modify"
CANCELLED = "cancelled"  # the asked gave up


@dataclass(frozen=True, slots=True)
class Action:
    id: str
    label: str
    type: ActionType = ActionType.SELECT


@dataclass(frozen=True, slots=True)
class Policy:
    """How a scenario is put. Times in seconds from its opening; `deadline_s` None: it waits."""

    severity: Severity
    blocking: bool = True
    deadline_s: float | None = None
    reminders_s: tuple[float, ...] = ()
    on_timeout: OnTimeout | None = None


POLICIES: Mapping[Scenario, Policy] = {
    Scenario.CLARIFICATION: Policy(Severity.INFO, True, 120, on_timeout=OnTimeout.DECIDE),
    Scenario.CAPABILITY: Policy(Severity.WARNING),
    Scenario.HIGH_RISK: Policy(Severity.CRITICAL, True, 180, on_timeout=OnTimeout.REFUSE),
    Scenario.LOW_CONFIDENCE: Policy(Severity.WARNING, blocking=False),
    Scenario.MISSING_INPUT: Policy(Severity.INFO, True, 180, on_timeout=OnTimeout.DEFAULT),
    Scenario.LOW_QUALITY: Policy(Severity.WARNING, blocking=False),
    Scenario.RETRIES_EXHAUSTED: Policy(Severity.CRITICAL),
    Scenario.COST: Policy(Severity.WARNING, True, 120, on_timeout=OnTimeout.CONTINUE),
    Scenario.MILESTONE: Policy(Severity.INFO, True, 600, (300,), OnTimeout.STOP),
}
"""The defaults; a deployment may change the times, and nothing else."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is to be asked, before it is known when. `secret_for`: the tool that alone may read
    the answer."""

    scenario: Scenario
    title: str  # names no person and quotes nobody: it is in events and logs
    body: str
    actions: tuple[Action, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    secret_for: str | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint as the database has it."""

    id: UUID
    owner_id: UUID
    run_key: UUID
    run_id: str  # the client's id of the run
    thread_id: str
    task_id: UUID | None
    call_id: str | None
    tool: str | None
    arguments: Mapping[str, Any] | None
    scenario: Scenario
    severity: Severity
    blocking: bool
    title: str
    body: str
    context: Mapping[str, Any]
    actions: tuple[Action, ...]
    secret_for: str | None
    state: State
    on_timeout: OnTimeout | None
    deadline: datetime | None
    reminders: int
    created_at: datetime
    opened_at: datetime | None
    answered_at: datetime | None
    answered_by: UUID | None
    via: Via | None
    action: str | None
    input: Any


class Change(StrEnum):
    """What happened to a checkpoint, as events and the audit tell it."""

    QUEUED = "queued"
    OPENED = "opened"
    REMINDED = "reminded"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    NOTED = "noted"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer on its way to the run. Either its text is with it (a signal), or it was written
    down first and `answer_id` names it, so that the engine never sees what it says."""

    checkpoint_id: str
    action: str
    answer_id: UUID | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class AnswerInput:
    """Answers that count together or not at all. `segment`: the id under which an AG-UI client
    wants the run to go on, `segment_digest`: of that request, in hexadecimal."""

    answers: tuple[Answer, ...]
    via: Via
    by: UUID | None = None
    segment: str | None = None
    segment_digest: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """`run_id`: of the segment in which the run goes on; None: it had not come to a standstill."""

    run_id: str | None


class Refused(StrEnum):
    """Why an answer does not count: the `type` of the error that an update of a run ends with."""

    UNKNOWN = "checkpoint-unknown"
    ANSWERED = "checkpoint-answered"
    EXPIRED = "checkpoint-expired"
    ACTION = "checkpoint-action"
    TWICE = "checkpoint-twice"


@dataclass(frozen=True, slots=True)
class Refusal:
    """`checkpoint_id`: the first that can't be answered; the rest: how it was."""

    type: Refused
    checkpoint_id: str
    action: str | None = None
    by: UUID | None = None
    via: Via | None = None
    at: datetime | None = None


def canonical(arguments: Mapping[str, Any]) -> bytes:
    """Arguments in one form, whatever the model's spacing and order."""
    return json.dumps(
        arguments, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def arguments_digest(arguments: Mapping[str, Any]) -> bytes:
    """What an approval is bound to."""
    return hashlib.sha256(canonical(arguments)).digest()
