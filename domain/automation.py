"""What crosses the engine when a job fires: ids and verdicts."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from domain.events import RunStatus
from domain.messages import Origin


@dataclass(frozen=True, slots=True)
class AutomationInput:
    """What a firing is given: the job. The rest is carried over continue-as-new."""

    job_id: UUID
    holding: "Held | None" = None
    number: int = 0  # windows that are done


@dataclass(frozen=True, slots=True)
class Held:
    """A slot that this firing has claimed. `reads`: its runs read what was said, in windows."""

    slot: str
    attempt: int
    reads: bool


@dataclass(frozen=True, slots=True)
class Firing:
    """Who asks for a slot: `workflow_run_id` stays the same over continue-as-new."""

    job_id: UUID
    workflow_id: str
    workflow_run_id: str
    scheduled_at: datetime


@dataclass(frozen=True, slots=True)
class Answer:
    """The slot if it is ours to run; else how the firing ends, and why."""

    held: Held | None
    slot: str | None = None
    outcome: str | None = None  # duplicate_slot | skipped | failed
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run of a slot, accepted and to be started. `done`: it was, and has been read."""

    key: UUID
    owner_id: UUID
    thread_id: str
    run_id: str
    profile: str | None
    user_messages: int
    done: bool = False
    origin: Origin = Origin.AUTOMATION
    status: RunStatus = RunStatus.ACCEPTED


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a slot failed: a slug, and words for a person."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class AutomationResult:
    outcome: str  # completed | nothing_new | duplicate_slot | skipped
    slot: str | None
    attempt: int = 0
    windows: int = 0
    reason: str | None = None
