"""What a job may look like: checked when it is written, each refusal naming its field. Pure."""

import re
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from domain.cron import parse
from domain.errors import InvalidInput
from domain.jobs import (
    DEFAULT_RUN_AT,
    MAX_PROMPT,
    MAX_TITLE,
    JobConfig,
    NewJob,
    ScheduleType,
    Timetable,
)
from domain.text import clean
from domain.zones import zone_of

_CLOCK = re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII)
_LAST_YEAR = 2099  # that a calendar of the engine may name


def checked(
    new: NewJob,
    *,
    now: datetime,
    tools: Collection[str] | None = None,
    timetable: bool = True,
) -> NewJob:
    """The job in the form in which it is stored. `tools`: the registered names; None: any.

    `timetable`: False leaves an old one alone, of which a `once` may be over. Raises InvalidInput
    with the dotted path of the first field that is wrong.
    """
    title = clean(new.title).strip()
    if not 1 <= len(title) <= MAX_TITLE:
        raise InvalidInput("title", f"A title has 1 to {MAX_TITLE} characters.")
    return replace(
        new,
        title=title,
        timetable=checked_timetable(new.timetable, now=now) if timetable else new.timetable,
        config=checked_config(new.config, tools),
    )


def checked_config(config: JobConfig, tools: Collection[str] | None) -> JobConfig:
    prompt = clean(config.prompt)
    if not prompt.strip():
        raise InvalidInput("config.prompt", "A job needs a prompt.")
    if len(prompt) > MAX_PROMPT:
        raise InvalidInput("config.prompt", f"A prompt has at most {MAX_PROMPT} characters.")
    for place, name in enumerate(config.tools):
        if tools is not None and name not in tools:
            raise InvalidInput(f"config.tools.{place}", f"There is no tool called {name[:100]!r}.")
    return JobConfig(prompt, tuple(dict.fromkeys(config.tools)))


def checked_timetable(timetable: Timetable, *, now: datetime) -> Timetable:
    """Raises InvalidInput. Of a `once` job the time must lie ahead."""
    zone = zone_of(timetable.timezone)
    if timetable.weekday is not None:
        if timetable.type is not ScheduleType.WEEKLY:
            raise InvalidInput("weekday", "Only a weekly job has a day of the week.")
        if not 1 <= timetable.weekday <= 7:
            raise InvalidInput("weekday", "A day of the week is 1 (Monday) to 7 (Sunday).")
    match timetable.type:
        case ScheduleType.DAILY | ScheduleType.WEEKLY:
            run_at = timetable.run_at or DEFAULT_RUN_AT
            if not _CLOCK.fullmatch(run_at):
                raise InvalidInput("run_at", "The time of day is HH:MM, from 00:00 to 23:59.")
        case ScheduleType.ONCE:
            run_at = _once(timetable.run_at, now)
        case ScheduleType.CRON:
            parse(timetable.run_at)
            run_at = " ".join(timetable.run_at.split())
    weekday = timetable.weekday
    if timetable.type is ScheduleType.WEEKLY and weekday is None:
        weekday = now.astimezone(zone).isoweekday()
    return Timetable(timetable.type, run_at, timetable.timezone, weekday)


def _once(run_at: str, now: datetime) -> str:
    message = "The time of a job that runs once is an instant with offset, 2027-03-14T10:00+08:00."
    try:
        given = datetime.fromisoformat(run_at)
    except ValueError as error:
        raise InvalidInput("run_at", message) from error
    if given.tzinfo is None:
        raise InvalidInput("run_at", message)
    try:
        at = given.astimezone(UTC).replace(second=0, microsecond=0)
    except OverflowError as error:
        raise InvalidInput("run_at", message) from error
    if at <= now:
        raise InvalidInput("run_at", "That time is over.")
    if at.year > _LAST_YEAR:
        raise InvalidInput("run_at", f"A job may wait until {_LAST_YEAR} at the latest.")
    return at.isoformat(timespec="minutes")
