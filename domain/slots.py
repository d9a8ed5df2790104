"""Which slots a job has, and when each is due. Pure arithmetic of local dates and clock changes.

A slot is one run that a job owes: a local date for daily and weekly jobs, an instant for the
others. A local time that a clock change leaves out is replaced by the first minute after the gap,
one that comes twice is the first of the two. So every local date has exactly one instant.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.cron import parse
from domain.jobs import ScheduleType, SlotStatus, Timetable

OWED_DAYS = 31
"""Slots that are longer overdue are not caught up."""

_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SlotWindow:
    """What one run of a slot was given to read. `run_id`: of that run; its thread is the job's."""

    attempt: int
    number: int
    run_id: str
    user_messages: int
    status: str  # open | done | failed
    error_code: str | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot that was claimed, as the database has it."""

    job_id: UUID
    slot: str
    status: SlotStatus
    attempt: int
    reopened: bool  # somebody asked for it again
    scheduled_at: datetime
    workflow_id: str
    started_at: datetime
    finished_at: datetime | None
    error_code: str | None
    error_message: str | None
    windows: tuple[SlotWindow, ...] = ()


@dataclass(frozen=True, slots=True)
class Due:
    """A slot and the instant at which it is due, before jitter."""

    slot: str
    at: datetime


def time_of(run_at: str) -> time:
    """Of HH:MM. Raises ValueError."""
    return time(int(run_at[:2]), int(run_at[3:]))


def once_at(run_at: str) -> datetime:
    """The instant of a `once` job, in UTC, to the minute. Raises ValueError."""
    return datetime.fromisoformat(run_at).astimezone(UTC).replace(second=0, microsecond=0)


def instant_key(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")


@lru_cache(maxsize=4096)
def instant_of(day: date, at: time, zone: ZoneInfo) -> datetime | None:
    """When a local date's slot is due, in UTC; None for a date that the zone never had.

    In a gap that runs past midnight it is the last minute before the gap, so that it stays on its
    own date.
    """
    local = datetime.combine(day, at)
    instant = local.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == local:
        return instant
    after = _end_of_gap(local, zone)
    for candidate in (after, after - _MINUTE):
        if candidate.astimezone(zone).date() == day:
            return candidate
    return None


def _end_of_gap(local: datetime, zone: ZoneInfo) -> datetime:
    """The instant of the change that leaves this local time out, in UTC, to the minute."""
    # Read with the later offset the time lies before the change, with the earlier one after it.
    low = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    high = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    before = low.astimezone(zone).utcoffset()
    while high - low > _MINUTE:
        middle = low + (high - low) // _MINUTE // 2 * _MINUTE
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


def slot_of(timetable: Timetable, fired: datetime) -> str:
    """The slot that a firing belongs to. A `once` job has one slot, whenever it is fired."""
    if timetable.type.dated:
        return fired.astimezone(ZoneInfo(timetable.timezone)).date().isoformat()
    if timetable.type is ScheduleType.ONCE:
        return instant_key(once_at(timetable.run_at))
    return instant_key(fired)


def expected(timetable: Timetable, first: datetime, last: datetime) -> Iterator[Due]:
    """The slots due from `first` to `last`, both included, in order."""
    zone = ZoneInfo(timetable.timezone)
    match timetable.type:
        case ScheduleType.ONCE:
            at = once_at(timetable.run_at)
            if first <= at <= last:
                yield Due(instant_key(at), at)
        case ScheduleType.CRON:
            for at in parse(timetable.run_at).between(first, last, zone):
                yield Due(instant_key(at), at)
        case ScheduleType.DAILY | ScheduleType.WEEKLY:
            yield from _dated(timetable, first, last, zone)


def _dated(timetable: Timetable, first: datetime, last: datetime, zone: ZoneInfo) -> Iterator[Due]:
    at_time = time_of(timetable.run_at)
    day, end = first.astimezone(zone).date(), last.astimezone(zone).date()
    while day <= end:
        at = instant_of(day, at_time, zone) if _due_on(timetable, day) else None
        if at is not None and first <= at <= last:
            yield Due(day.isoformat(), at)
        day += _DAY


def owed(
    timetable: Timetable, expected_from: datetime, until: datetime, have: Collection[str]
) -> list[Due]:
    """What should have run by `until` and was never claimed, oldest first, of the last month.

    A cron job owes nothing: it runs when it fires.
    """
    if timetable.type is ScheduleType.CRON:
        return []
    first = max(expected_from, until - timedelta(days=OWED_DAYS))
    return [due for due in expected(timetable, first, until) if due.slot not in have]


def next_due(timetable: Timetable, after: datetime) -> datetime | None:
    """When the job is due next, before jitter; None if never again."""
    zone = ZoneInfo(timetable.timezone)
    if timetable.type is ScheduleType.CRON:
        return parse(timetable.run_at).next_after(after, zone)
    horizon = timedelta(days=9) if timetable.type.dated else timedelta(days=366 * 100)
    ahead = expected(timetable, after, after + horizon)
    return next((due.at for due in ahead if due.at > after), None)


def gaps(timetable: Timetable, first: date, last: date) -> tuple[datetime, ...]:
    """Dates from `first` to `last` whose local time a clock change leaves out: for each the local
    time, without zone, at which its slot is due instead."""
    if not timetable.type.dated:
        return ()
    zone, at = ZoneInfo(timetable.timezone), time_of(timetable.run_at)
    found: list[datetime] = []
    for offset in range((last - first).days + 1):
        day = first + offset * _DAY
        instant = instant_of(day, at, zone) if _due_on(timetable, day) else None
        if instant is None:
            continue
        local = instant.astimezone(zone).replace(tzinfo=None)
        if local != datetime.combine(day, at):
            found.append(local)
    return tuple(found)


def _due_on(timetable: Timetable, day: date) -> bool:
    return timetable.weekday is None or day.isoweekday() == timetable.weekday
