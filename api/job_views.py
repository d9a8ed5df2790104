"""What jobs and their slots look like over HTTP: documents, the same in both directions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field

from adapters import profile_format
from domain.errors import InvalidInput
from domain.jobs import Job, JobStatus, ScheduleType, SlotStatus, job_thread
from domain.slots import Slot, SlotWindow

J = TypeVar("J", bound="JobView")


class ConfigView(BaseModel):
    prompt: str
    tools: Sequence[str]


class SlotView(BaseModel):
    slot: str = Field(description="Local date, or instant of a once or cron job")
    status: SlotStatus
    attempt: int
    reopened: bool = Field(description="Asked for again; the next firing takes it")
    scheduled_at: datetime = Field(description="When its firing was due, before jitter")
    started_at: datetime
    finished_at: datetime | None
    error_code: str | None
    error_message: str | None
    workflow_id: str = Field(description="The firing in Temporal")

    @classmethod
    def of(cls, slot: Slot) -> "SlotView":
        return cls.model_validate(slot, from_attributes=True)


class WindowView(BaseModel):
    """What one run of a slot was given to read."""

    attempt: int
    number: int
    run_id: str
    thread_id: str
    user_messages: int
    status: str = Field(description="`open`, `done` or `failed`")
    error_code: str | None
    error_message: str | None

    @classmethod
    def of(cls, job_id: UUID, window: SlotWindow) -> "WindowView":
        return cls(
            attempt=window.attempt,
            number=window.number,
            run_id=window.run_id,
            thread_id=job_thread(job_id),
            user_messages=window.user_messages,
            status=window.status,
            error_code=window.error_code,
            error_message=window.error_message,
        )


class SlotRunView(SlotView):
    windows: list[WindowView]

    @classmethod
    def of(cls, slot: Slot) -> "SlotRunView":
        seen = SlotView.of(slot).model_dump()
        return cls(**seen, windows=[WindowView.of(slot.job_id, w) for w in slot.windows])


class JobView(BaseModel):
    id: UUID
    owner_id: UUID
    title: str
    schedule_type: ScheduleType
    run_at: str
    weekday: int | None
    timezone: str
    status: JobStatus
    config: ConfigView
    execution_profile: str | dict[str, Any]
    builtin: str | None
    next_run_at: datetime | None
    next_run_local: datetime | None = Field(description="The same in the job's zone")
    last_run_at: datetime | None
    missed: list[str] = Field(description="Slots that were due and have not run")
    failed_in_a_row: int
    last_slot: SlotView | None
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls: type[J], job: Job, missed: Sequence[str], last: Slot | None, **more: Any) -> J:
        times, due = job.timetable, job.next_run_at
        return cls(
            id=job.id,
            owner_id=job.owner_id,
            title=job.title,
            schedule_type=times.type,
            run_at=times.run_at,
            weekday=times.weekday,
            timezone=times.timezone,
            status=job.status,
            config=ConfigView(prompt=job.config.prompt, tools=job.config.tools),
            execution_profile=_profile(job),
            builtin=job.builtin,
            next_run_at=due,
            next_run_local=due.astimezone(ZoneInfo(times.timezone)) if due else None,
            last_run_at=job.last_run_at,
            missed=list(missed),
            failed_in_a_row=job.failed_in_a_row,
            last_slot=SlotView.of(last) if last else None,
            created_at=job.created_at,
            updated_at=job.updated_at,
            **more,
        )


class ChangedJobView(JobView):
    schedule_in_sync: bool = Field(
        description="False: the engine is away; it learns of the change when it is back"
    )


class TriggerView(BaseModel):
    slot: str
    state: str = Field(description="`requested`, or `running`: nothing was started")
    run: SlotRunView | None = Field(description="The slot that runs already")


class BackfillView(BaseModel):
    requested: list[str]
    running: list[str]
    done: list[str] = Field(description="Have run before, and were left alone")


def _profile(job: Job) -> str | dict[str, Any]:
    """In today's form, whatever was kept; as it is where nobody can read it."""
    if isinstance(job.profile, str):
        return job.profile
    try:
        return profile_format.as_document(profile_format.load(dict(job.profile)))
    except InvalidInput:
        return dict(job.profile)
