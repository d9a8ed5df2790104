"""Automation jobs: what one is, and what every user's daily memory job looks like. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

DAILY_MEMORY = "daily_memory"
"""`builtin` of the job that every user has."""

MAX_TITLE = 200  # characters, here and below
MAX_PROMPT = 2_000
DEFAULT_RUN_AT = "10:00"
DEFAULT_TIMEZONE = "Asia/Shanghai"
MEMORY_TOOLS = ("memory_write", "memory_forget")
MEMORY_PROFILE = "automation_memory_default"


class ScheduleType(StrEnum):
    ONCE = "once"
    DAILY = "daily"
    WEEKLY = "weekly"
    CRON = "cron"

    @property
    def dated(self) -> bool:
        """Whether its slots are local dates, each of which is owed one run."""
        return self in (ScheduleType.DAILY, ScheduleType.WEEKLY)


class JobStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"  # a `once` that ran
    DELETED = "deleted"


class SlotStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    NOTHING_NEW = "nothing_new"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a job is due.

    `run_at`: local HH:MM (daily, weekly), an ISO instant with offset (once), five fields (cron).
    `weekday`: ISO, Monday = 1; weekly only.
    """

    type: ScheduleType
    run_at: str
    timezone: str  # IANA name
    weekday: int | None = None


@dataclass(frozen=True, slots=True)
class JobConfig:
    """What the agent is told and which tools are declared to it."""

    prompt: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the database has it. `profile`: the name of one, or one inline (its JSON form)."""

    id: UUID
    owner_id: UUID
    title: str
    timetable: Timetable
    status: JobStatus
    config: JobConfig
    profile: str | Mapping[str, Any]
    builtin: str | None
    expected_from: datetime  # slots from here on are owed a run
    next_run_at: datetime | None  # mirrors of the engine's state, for lists
    last_run_at: datetime | None
    missed: int  # owed slots without a finished run, when last counted
    failed_in_a_row: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of one session, both ends included."""

    session_key: UUID
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job as somebody asks for it. `profile`: the name of one, or one inline."""

    title: str
    timetable: Timetable
    config: JobConfig
    profile: str | Mapping[str, Any] = MEMORY_PROFILE
    builtin: str | None = None


@dataclass(frozen=True, slots=True)
class JobChange:
    """What is to be different about a job. None: as it is."""

    title: str | None = None
    type: ScheduleType | None = None
    run_at: str | None = None
    timezone: str | None = None
    weekday: int | None = None
    prompt: str | None = None
    tools: tuple[str, ...] | None = None
    profile: str | Mapping[str, Any] | None = None

    def applied_to(self, job: Job) -> NewJob:
        """The job as it would be. A type that is new to it brings its own time with it."""
        old = job.timetable
        kept = self.type in (None, old.type)
        weekday = self.weekday or (old.weekday if kept else None)
        run_at = self.run_at or (old.run_at if kept or _both_dated(old, self.type) else "")
        return NewJob(
            title=job.title if self.title is None else self.title,
            timetable=Timetable(
                self.type or old.type, run_at, self.timezone or old.timezone, weekday
            ),
            config=JobConfig(
                job.config.prompt if self.prompt is None else self.prompt,
                job.config.tools if self.tools is None else self.tools,
            ),
            profile=job.profile if self.profile is None else self.profile,
            builtin=job.builtin,
        )

    @property
    def times(self) -> bool:
        """Whether it changes when the job is due."""
        return any(
            field is not None for field in (self.type, self.run_at, self.timezone, self.weekday)
        )


def _both_dated(old: Timetable, type: ScheduleType | None) -> bool:
    return old.type.dated and type is not None and type.dated


_PROMPT = {
    "en": (
        "Read what the user said since the last time and keep what will still matter: who they "
        "are, what they like and want, what they decided, whom and what they work with. Correct "
        "what has changed, and forget what they asked to have forgotten."
    ),
    "zh": (
        "阅读用户自上次以来说过的话，留下以后仍然有用的内容：他们是谁、喜欢什么、想要什么、"
        "做了哪些决定、和哪些人与事打交道。内容有变就更正，用户要求忘记的就忘记。"
    ),
}
_TITLE = {"en": "Daily memory", "zh": "每日记忆"}


def memory_config(locale: str) -> tuple[str, JobConfig]:
    """Title and config of the daily memory job, in Chinese for a Chinese locale."""
    language = "zh" if locale.lower().replace("_", "-").split("-")[0] == "zh" else "en"
    return _TITLE[language], JobConfig(_PROMPT[language], MEMORY_TOOLS)


SCHEDULE_PREFIX = "job:"


def schedule_id(job_id: UUID) -> str:
    """Of the job's Schedule, and of its action's workflow, to which the engine adds the time."""
    return f"{SCHEDULE_PREFIX}{job_id}"


def job_thread(job_id: UUID) -> str:
    """The automation session of a job: its runs never wait for those of another."""
    return f"job:{job_id}"


def slot_run_id(job_id: UUID, slot: str, attempt: int, number: int) -> str:
    """The run that reads window `number` of this slot. The same however often it is asked for."""
    return f"job:{job_id}:{slot}:{attempt}:{number}"
