"""Cron expressions of five fields: what they mean, and when one is due. Pure.

Fields are minute, hour, day of month, month, day of week (0 and 7 are Sunday), each a list of
numbers, ranges and steps; months and days of the week also by their English names. Where both day
fields are restricted a day needs to match one of them, as in every cron.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from domain.errors import InvalidInput

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FIELDS: tuple[tuple[str, int, int, Mapping[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of week", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_DAY = timedelta(days=1)
_HORIZON_DAYS = 366 * 8 + 2  # 29 February comes again within eight years

Days = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cron:
    """Each field as its sorted values. A day field that is `*` is None: it restricts nothing."""

    minutes: Days
    hours: Days
    days: Days | None
    months: Days
    weekdays: Days | None  # Sunday = 0

    def due_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_date = self.days is not None and day.day in self.days
        by_weekday = self.weekdays is not None and day.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday or (self.days is None and self.weekdays is None)

    def next_after(self, after: datetime, zone: ZoneInfo) -> datetime | None:
        """The first instant later than `after`; what a clock change leaves out is not one."""
        horizon = after + timedelta(days=_HORIZON_DAYS)
        return next((at for at in self.between(after, horizon, zone) if at > after), None)

    def between(self, first: datetime, last: datetime, zone: ZoneInfo) -> Iterator[datetime]:
        """The instants from `first` to `last`, both included, in order."""
        day = first.astimezone(zone).date() - _DAY
        end = last.astimezone(zone).date() + _DAY
        while day <= end:
            if self.due_on(day):
                yield from (at for at in self._instants(day, zone) if first <= at <= last)
            day += _DAY

    def _instants(self, day: date, zone: ZoneInfo) -> list[datetime]:
        clocks = (time(hour, minute) for hour in self.hours for minute in self.minutes)
        local = [datetime.combine(day, clock) for clock in clocks]
        midnight = datetime.combine(day, time(), zone)
        offset = midnight.utcoffset() or timedelta()
        if (midnight + _DAY).utcoffset() == offset:  # an ordinary day, and much quicker
            return [(at - offset).replace(tzinfo=UTC) for at in local]
        found: set[datetime] = set()
        for at in local:
            for fold in (0, 1):
                instant = at.replace(tzinfo=zone, fold=fold).astimezone(UTC)
                if instant.astimezone(zone).replace(tzinfo=None) == at:
                    found.add(instant)
        return sorted(found)


def parse(expression: str) -> Cron:
    """Raises InvalidInput (`run_at`) saying which field is wrong, or that no day ever matches."""
    parts = expression.split()
    if len(parts) != len(_FIELDS):
        raise InvalidInput("run_at", "A cron expression has five fields: minute hour day month day")
    minutes, hours, days, months, weekdays = (
        _values(part, *field) for part, field in zip(parts, _FIELDS, strict=True)
    )
    cron = Cron(
        minutes,
        hours,
        None if parts[2] == "*" else days,
        months,
        None if parts[4] == "*" else tuple(sorted({day % 7 for day in weekdays})),
    )
    impossible = all(min(days) > _LONGEST[month - 1] for month in months)
    if impossible and cron.weekdays is None:
        raise InvalidInput("run_at", f"No month of {parts[3]} has a day {parts[2]}.")
    return cron


def _values(text: str, name: str, low: int, high: int, names: Mapping[str, int]) -> Days:
    found: set[int] = set()
    for item in text.split(","):
        span, _, step_text = item.partition("/")
        step = _number(step_text, name, {}) if "/" in item else 1
        if span == "*":
            first, last = low, high
        else:
            start, dash, end = span.partition("-")
            first = _number(start, name, names)
            last = _number(end, name, names) if dash else (high if "/" in item else first)
        if not (low <= first <= last <= high and step >= 1):
            raise InvalidInput("run_at", f"{item!r} is no {name}: {low} to {high}.")
        found.update(range(first, last + 1, step))
    return tuple(sorted(found))


def _number(text: str, name: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not (text.isascii() and text.isdigit() and len(text) <= 3):
        raise InvalidInput("run_at", f"{text!r} is no {name}.")
    return int(text)
