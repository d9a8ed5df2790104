"""A run: one workflow execution answering one request. What crosses Temporal is here: ids only."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from domain.events import RunStatus
from domain.messages import Usage
from domain.tools import Denier


class Placement(StrEnum):
    """Where the steps that only touch our database run.

    lean: inside the workflow task, as local activities (fewer events, faster).
    ordinary: each as an activity of its own (every step visible in the Temporal UI, slower).
    """

    LEAN = "lean"
    ORDINARY = "ordinary"


@dataclass(frozen=True, slots=True)
class AgentRunInput:
    run_key: UUID


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What `runs.begin` froze into the run, as far as the workflow needs it."""

    profile: str
    executor: str
    model: str
    max_turns: int
    timeout_s: int
    model_queue: str | None  # None: the workflow's own queue
    tool_queue: str | None
    placement: Placement
    already_ended: bool = False


@dataclass(frozen=True, slots=True)
class CallRef:
    """A tool call of a turn, by reference; its arguments stay in the message row."""

    call_id: str
    name: str
    refused_by: Denier | None
    quick: bool
    parallel_safe: bool
    idempotent: bool
    timeout_s: float


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a model turn left behind: a message id and what to do next."""

    message_id: str
    calls: tuple[CallRef, ...]
    finish_reason: str


@dataclass(frozen=True, slots=True)
class AgentRunResult:
    status: RunStatus
    turns: int
    message_id: str | None
    usage: Usage
    limit: str | None = None
