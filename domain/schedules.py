"""The Schedule that a job should have, as a value that can be compared and digested. Pure."""

import hashlib
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.cron import Cron, parse
from domain.jobs import Job, JobStatus, ScheduleType, Timetable
from domain.slots import OWED_DAYS, gaps, once_at, time_of

GAP = "gap"
"""Comment of a calendar that stands for a local time which a clock change leaves out."""
AHEAD_DAYS = 60  # how far ahead gaps are entered

Spans = tuple[tuple[int, int], ...]
"""Values of a calendar field as stretches, both ends included."""

_ANY_DAY: Spans = ((1, 31),)
_ANY_MONTH: Spans = ((1, 12),)
_ANY_WEEKDAY: Spans = ((0, 6),)


class Change(StrEnum):
    """What was done to a Schedule."""

    CREATED = "created"
    UPDATED = "updated"
    PAUSED = "paused"
    RESUMED = "resumed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Calendar:
    """Local times: those that match every field. Sunday is weekday 0."""

    minutes: Spans
    hours: Spans
    days: Spans = _ANY_DAY
    months: Spans = _ANY_MONTH
    years: Spans = ()
    weekdays: Spans = _ANY_WEEKDAY
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """What is the same for every job: settings, in seconds."""

    queue: str
    jitter_s: float = 600.0
    catch_up_s: float = 86_400.0


@dataclass(frozen=True, slots=True)
class DesiredSchedule:
    job_id: UUID
    owner_id: UUID
    calendars: tuple[Calendar, ...]
    timezone: str
    jitter_s: float
    paused: bool
    policy: Policy

    @property
    def note(self) -> str:
        """Names the whole of it, so that a listing, which shows no policies, tells if it is ours
        and of this version. The pause is shown, and changes more often: it is not in it."""
        fields = (self.owner_id, self.calendars, self.timezone, self.jitter_s, self.policy)
        text = repr([astuple(f) if isinstance(f, Policy) else str(f) for f in fields])
        return f"varve {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def desired(job: Job, policy: Policy, now: datetime) -> DesiredSchedule | None:
    """What the engine should have for this job; None if nothing."""
    if job.status not in (JobStatus.ACTIVE, JobStatus.PAUSED):
        return None
    once = job.timetable.type is ScheduleType.ONCE  # somebody asked for that minute
    return DesiredSchedule(
        job_id=job.id,
        owner_id=job.owner_id,
        calendars=calendars(job.timetable, now),
        timezone="UTC" if once else job.timetable.timezone,
        jitter_s=0.0 if once else policy.jitter_s,
        paused=job.status is JobStatus.PAUSED,
        policy=policy,
    )


def calendars(timetable: Timetable, now: datetime) -> tuple[Calendar, ...]:
    """When it fires. Of dated jobs the last month too: that is what can be caught up."""
    match timetable.type:
        case ScheduleType.CRON:
            return _of_cron(parse(timetable.run_at))
        case ScheduleType.ONCE:
            return (_exact(once_at(timetable.run_at)),)
        case ScheduleType.DAILY | ScheduleType.WEEKLY:
            at = time_of(timetable.run_at)
            weekday = None if timetable.weekday is None else timetable.weekday % 7
            usual = Calendar(
                spans([at.minute]),
                spans([at.hour]),
                weekdays=_ANY_WEEKDAY if weekday is None else spans([weekday]),
            )
            today = now.astimezone(ZoneInfo(timetable.timezone)).date()
            first = today - timedelta(days=OWED_DAYS)
            missing = gaps(timetable, first, today + timedelta(days=AHEAD_DAYS))
            return (usual, *(_exact(local, GAP) for local in missing))


def spans(values: Iterable[int]) -> Spans:
    """Sorted values as stretches."""
    found: list[tuple[int, int]] = []
    for value in values:
        if found and found[-1][1] == value - 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return tuple(found)


def _of_cron(cron: Cron) -> tuple[Calendar, ...]:
    """Two where both day fields are restricted: a calendar wants every field, cron either."""
    minutes, hours, months = spans(cron.minutes), spans(cron.hours), spans(cron.months)
    found: list[Calendar] = []
    if cron.days is not None or cron.weekdays is None:
        days = _ANY_DAY if cron.days is None else spans(cron.days)
        found.append(Calendar(minutes, hours, days, months))
    if cron.weekdays is not None:
        found.append(Calendar(minutes, hours, months=months, weekdays=spans(cron.weekdays)))
    return tuple(found)


def _exact(at: datetime, comment: str | None = None) -> Calendar:
    """One minute, read from the fields of `at`."""
    assert at.tzinfo in (None, UTC)
    return Calendar(
        minutes=spans([at.minute]),
        hours=spans([at.hour]),
        days=spans([at.day]),
        months=spans([at.month]),
        years=spans([at.year]),
        comment=comment,
    )
