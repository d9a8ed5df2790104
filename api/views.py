"""What our own objects look like over HTTP. AG-UI's shapes are in domain/agui*.py."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, Self, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from adapters.postgres.audit import AuditRow
from adapters.postgres.messages import Session
from adapters.postgres.rollouts import RolloutRow
from domain.agui_reader import end_of
from domain.events import RunStatus
from domain.identity import Scope, UserRole
from domain.ids import run_workflow_id
from domain.messages import Origin
from domain.profiles import SessionType
from domain.runs import Run

T = TypeVar("T")


class View(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Page(View, Generic[T]):
    items: list[T]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null: last")


class UsageView(View):
    input_tokens: int
    output_tokens: int
    cached_tokens: int


class RunView(View):
    run_id: str
    thread_id: str
    status: RunStatus
    origin: Origin
    profile: str | None = Field(description="The execution profile, once the run began")
    executor: str | None
    turns: int = Field(description="Completed model calls")
    usage: UsageView
    cost_usd: str = Field(description="Decimal string", examples=["0.0042"])
    limit: str | None = Field(description="The limit that cut the run short, if one did")
    error_code: str | None
    error_message: str | None
    last_event_id: int = Field(description="Id that says: every durable event so far is held")
    created_at: datetime
    start_at: datetime | None = Field(description="Of a delayed run: not before then")
    started_at: datetime | None
    finished_at: datetime | None
    workflow_id: str = Field(description="The run in Temporal")

    @classmethod
    def of(cls, run: Run) -> Self:
        usage = run.usage
        return cls(
            run_id=run.run_id,
            thread_id=run.thread_id,
            status=run.status,
            origin=run.origin,
            profile=run.profile,
            executor=run.executor,
            turns=run.turns,
            usage=UsageView(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
            ),
            cost_usd=_dollars(run.cost_micro_usd),
            limit=run.limit,
            error_code=run.error_code,
            error_message=run.error_message,
            last_event_id=end_of(run.last_seq),
            created_at=run.created_at,
            start_at=run.not_before,
            started_at=run.started_at,
            finished_at=run.finished_at,
            workflow_id=run_workflow_id(run.key),
        )


class AnsweredRunView(RunView):
    """A run whose end was waited for."""

    answer: str | None = Field(None, description="What the agent said last")


class InterruptView(View):
    run_id: str
    interrupted: bool = Field(description="False: the run had ended, nothing was done")
    status: RunStatus | None = Field(description="null: it has not arrived yet")
    detail: str


class SessionView(View):
    thread_id: str
    type: SessionType
    title: str | None
    profile: str | None
    messages: int = Field(description="How many the session has, hidden ones counted")
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, session: Session) -> "SessionView":
        return cls(
            thread_id=session.thread_id,
            type=session.type,
            title=session.title,
            profile=session.profile,
            messages=session.last_seq,
            created_at=session.created_at,
            updated_at=session.updated_at,
        )


class HistoryView(View):
    """A session as an AG-UI client loads it."""

    messages: list[dict[str, Any]] = Field(description="AG-UI messages, oldest first")
    state: dict[str, Any] = Field(description="Always empty: there is no shared state")
    pending_interrupts: list[dict[str, Any]] = Field(description="AG-UI interrupts that wait")
    active_run_id: str | None = Field(description="The run at work on the session, if there is one")
    last_event_id: int | None = Field(
        description="Of the latest run: events after it are not in `messages` yet"
    )


class RolloutView(View):
    id: UUID
    profile: str
    percentage: float
    priority: int
    owner_id: UUID | None
    task_type: str | None
    created_by: UUID | None
    created_at: datetime

    @classmethod
    def of(cls, row: RolloutRow) -> "RolloutView":
        rule = row.rule
        return cls(
            id=UUID(rule.id),
            profile=rule.profile,
            percentage=rule.percentage,
            priority=row.priority,
            owner_id=UUID(rule.owner_id) if rule.owner_id else None,
            task_type=rule.task_type,
            created_by=row.created_by,
            created_at=row.created_at,
        )


class ModelView(View):
    name: str
    profiles: list[str] = Field(description="Profiles that call it, as first choice or fallback")


class ToolView(View):
    name: str
    description: str
    parameters: dict[str, Any] = Field(description="JSON Schema of the arguments")
    kind: str
    risk: str
    off_by_default: bool = Field(description="Runs only if the operator's list names it")


class AuditView(View):
    id: int
    at: datetime
    kind: str
    owner_id: UUID
    actor_id: UUID | None
    run_id: str | None
    thread_id: str | None
    tool: str | None
    origin: str | None
    executor: str | None
    profile: str | None
    detail: dict[str, Any]

    @classmethod
    def of(cls, row: AuditRow) -> "AuditView":
        return cls.model_validate(row, from_attributes=True)


class MeView(View):
    user_id: UUID
    name: str
    role: UserRole
    locale: str
    timezone: str
    scopes: Sequence[Scope]


class PartView(View):
    status: str = Field(description="`up` or `down`")
    detail: str | None = None


class HealthView(View):
    status: str = Field(description="`ready`, `degraded` (still ready) or `unavailable`")
    parts: dict[str, PartView]


def _dollars(micro_usd: int) -> str:
    return f"{micro_usd // 1_000_000}.{micro_usd % 1_000_000:06d}"
