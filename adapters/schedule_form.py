"""A desired Schedule in the engine's form, and back: what it takes to make the two agree."""

from datetime import timedelta

from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleCalendarSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from domain.attributes import Keyword
from domain.automation import AutomationInput
from domain.ids import AUTOMATION
from domain.jobs import schedule_id
from domain.messages import Origin
from domain.schedules import Calendar, Change, DesiredSchedule, Spans

TASK_TIMEOUT = timedelta(seconds=5)
"""A worker that dies in the middle of a workflow task is waited for this long, not ten seconds."""


def difference(
    want: DesiredSchedule, spec: ScheduleSpec, note: str | None, *, paused: bool
) -> Change | None:
    """What has to be done about a Schedule that looks like this."""
    same = (
        note == want.note
        and {_calendar(entry) for entry in spec.calendars} == set(want.calendars)
        and not (spec.intervals or spec.cron_expressions or spec.skip)
        and spec.start_at is None
        and spec.end_at is None
        and (spec.jitter or timedelta()) == timedelta(seconds=want.jitter_s)
        and (spec.time_zone_name or "UTC") == want.timezone
    )
    if not same:
        return Change.UPDATED
    if paused != want.paused:
        return Change.PAUSED if want.paused else Change.RESUMED
    return None


def schedule_of(want: DesiredSchedule) -> Schedule:
    """What the engine is asked for."""
    action = ScheduleActionStartWorkflow(
        AUTOMATION,
        AutomationInput(want.job_id),
        id=schedule_id(want.job_id),
        task_queue=want.policy.queue,
        task_timeout=TASK_TIMEOUT,
        static_summary=f"automation job {want.job_id}",
        typed_search_attributes=TypedSearchAttributes(
            [
                SearchAttributePair(
                    SearchAttributeKey.for_keyword(Keyword.OWNER_ID), str(want.owner_id)
                ),
                SearchAttributePair(
                    SearchAttributeKey.for_keyword(Keyword.ORIGIN), Origin.AUTOMATION.value
                ),
            ]
        ),
    )
    return Schedule(
        action=action,
        spec=ScheduleSpec(
            calendars=[_entry(calendar) for calendar in want.calendars],
            jitter=timedelta(seconds=want.jitter_s),
            time_zone_name=want.timezone,
        ),
        policy=SchedulePolicy(
            overlap=ScheduleOverlapPolicy.BUFFER_ONE,
            catchup_window=timedelta(seconds=want.policy.catch_up_s),
        ),
        state=ScheduleState(note=want.note, paused=want.paused),
    )


def _entry(calendar: Calendar) -> ScheduleCalendarSpec:
    return ScheduleCalendarSpec(
        minute=_ranges(calendar.minutes),
        hour=_ranges(calendar.hours),
        day_of_month=_ranges(calendar.days),
        month=_ranges(calendar.months),
        year=_ranges(calendar.years),
        day_of_week=_ranges(calendar.weekdays),
        comment=calendar.comment,
    )


def _ranges(spans: Spans) -> list[ScheduleRange]:
    return [ScheduleRange(first, last) for first, last in spans]


def _calendar(entry: ScheduleCalendarSpec) -> Calendar | None:
    """What we would have asked for to get this; None if we never would."""
    fields = (entry.minute, entry.hour, entry.day_of_month, entry.month, entry.year)
    ranges = [*fields, entry.day_of_week, entry.second]
    if any(part.step > 1 for field in ranges for part in field):
        return None
    *wanted, second = (tuple((part.start, max(part.start, part.end)) for part in r) for r in ranges)
    if second != ((0, 0),):
        return None
    return Calendar(*wanted, comment=entry.comment or None)
