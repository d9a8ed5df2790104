"""Slots of local dates: one per date, whatever the clocks do."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.jobs import ScheduleType, Timetable
from domain.schedules import calendars
from domain.slots import expected, gaps, instant_of, next_due, owed, slot_of

ZONES = (
    "America/New_York",
    "America/Santiago",
    "Europe/London",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Pacific/Apia",
)
TIMES = ("00:00", "01:30", "02:30", "10:00")


def daily(run_at: str, timezone: str) -> Timetable:
    return Timetable(ScheduleType.DAILY, run_at, timezone)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("run_at", TIMES)
def test_a_year_has_one_slot_for_each_of_its_dates(zone: str, run_at: str) -> None:
    times = daily(run_at, zone)
    first = datetime(2027, 1, 1, tzinfo=ZoneInfo(zone))
    dues = list(expected(times, first, first.replace(year=2028) - timedelta(seconds=1)))
    days = [date(2027, 1, 1) + timedelta(days=n) for n in range(365)]
    assert [due.slot for due in dues] == [day.isoformat() for day in days]
    assert [slot_of(times, due.at) for due in dues] == [due.slot for due in dues]


@given(
    zone=st.sampled_from(sorted(available_timezones() - {"localtime"})),
    day=st.dates(date(1975, 1, 1), date(2037, 1, 1)),
    minute=st.integers(0, 24 * 60 - 1),
)
def test_a_date_has_one_instant_and_that_is_on_it(zone: str, day: date, minute: int) -> None:
    place, clock = ZoneInfo(zone), time(minute // 60, minute % 60)
    instant = instant_of(day, clock, place)
    if instant is None:  # a date the zone never had: noon of it is another day's
        noon = datetime(day.year, day.month, day.day, 12, tzinfo=place).astimezone(UTC)
        assert noon.astimezone(place).date() != day
        return
    local = instant.astimezone(place)
    assert local.date() == day
    if local.time() != clock:
        written = datetime.combine(day, clock, place)
        assert written.astimezone(UTC).astimezone(place).time() != clock


@pytest.mark.parametrize(
    ("zone", "day", "run_at", "instant"),
    [
        ("America/New_York", "2027-03-14", "02:30", "2027-03-14T03:00-04:00"),
        ("America/New_York", "2027-11-07", "01:30", "2027-11-07T01:30-04:00"),
        ("America/Santiago", "2027-09-05", "00:00", "2027-09-05T01:00-03:00"),
        ("Australia/Lord_Howe", "2027-10-03", "02:15", "2027-10-03T02:30+11:00"),
        ("America/Nuuk", "2027-03-27", "23:30", "2027-03-27T22:59-02:00"),
    ],
)
def test_a_time_that_is_left_out_or_comes_twice(
    zone: str, day: str, run_at: str, instant: str
) -> None:
    clock = time.fromisoformat(run_at)
    assert instant_of(date.fromisoformat(day), clock, ZoneInfo(zone)) == at(instant)


def test_a_date_that_a_zone_never_had_owes_nothing() -> None:
    times = daily("10:00", "Pacific/Apia")
    dues = expected(times, at("2011-12-29T00:00-10:00"), at("2011-12-31T23:00+14:00"))
    assert [due.slot for due in dues] == ["2011-12-29", "2011-12-31"]


def test_only_gaps_are_entered_beside_the_usual_time() -> None:
    first, last = date(2027, 1, 1), date(2027, 12, 31)
    assert gaps(daily("02:30", "America/New_York"), first, last) == (at("2027-03-14T03:00"),)
    assert gaps(daily("01:30", "America/New_York"), first, last) == ()
    weekly = Timetable(ScheduleType.WEEKLY, "02:30", "America/New_York", 1)
    assert gaps(weekly, first, last) == ()
    usual, gap = calendars(daily("02:30", "America/New_York"), at("2027-02-01T00:00Z"))
    assert (usual.comment, gap.comment, gap.hours, gap.days) == (
        *(None, "gap", ((3, 3),)),
        ((14, 14),),
    )


def test_what_is_owed_is_what_was_expected_and_not_claimed() -> None:
    times = daily("10:00", "Asia/Shanghai")
    since, until = at("2027-01-01T10:01+08:00"), at("2027-01-05T10:00+08:00")
    slots = [due.slot for due in owed(times, since, until, {"2027-01-03"})]
    assert slots == ["2027-01-02", "2027-01-04", "2027-01-05"]
    assert len(owed(times, at("2020-01-01T00:00Z"), until + timedelta(minutes=1), ())) == 31
    cron = Timetable(ScheduleType.CRON, "* * * * *", "UTC")
    assert owed(cron, since, until, ()) == []


def test_a_weekly_job_owes_its_weekday() -> None:
    times = Timetable(ScheduleType.WEEKLY, "10:00", "Europe/London", 5)
    dues = expected(times, at("2027-01-01T00:00Z"), at("2027-01-31T00:00Z"))
    assert [due.slot for due in dues] == [f"2027-01-{day:02}" for day in (1, 8, 15, 22, 29)]


def test_a_once_job_has_one_slot_whenever_it_is_fired() -> None:
    times = Timetable(ScheduleType.ONCE, "2027-03-14T10:00+08:00", "UTC")
    assert slot_of(times, at("2027-01-01T00:00Z")) == "2027-03-14T02:00Z"
    assert next_due(times, at("2027-01-01T00:00Z")) == at("2027-03-14T02:00Z")
    assert next_due(times, at("2027-03-14T02:00Z")) is None


def travelled(moves: dict[str, str], start: str, hours: int) -> list[str]:
    """The slots that run for a daily 10:00 job whose owner moves, in the order in which they run:
    hour by hour what fires in the zone of the moment, then what the reconciler finds owed."""
    zone, claimed = "UTC", list[str]()
    since = at(start)
    for hour in range(hours * 2 + 1):
        now = since + timedelta(minutes=30 * hour)
        zone = moves.get(now.strftime("%Y-%m-%dT%H:%MZ"), zone)
        times = daily("10:00", zone)
        before = now - timedelta(minutes=30)
        fired = [due.slot for due in expected(times, before, now) if due.at > before]
        late = [due.slot for due in owed(times, since, now - timedelta(minutes=15), claimed)]
        claimed += [slot for slot in dict.fromkeys(fired + late) if slot not in claimed]
    return claimed


def test_who_moves_over_the_date_line_and_back_misses_no_date_and_repeats_none() -> None:
    # From Honolulu at noon on the 3rd, when it is the 4th on Tonga; back at noon on the 6th.
    moves = {
        "2027-05-01T10:00Z": "Pacific/Honolulu",
        "2027-05-03T22:00Z": "Pacific/Tongatapu",
        "2027-05-05T23:00Z": "Pacific/Honolulu",
    }
    slots = travelled(moves, "2027-05-01T10:00+00:00", 24 * 9)
    assert slots == [f"2027-05-{day:02}" for day in range(1, 1 + len(slots))]
    assert len(slots) == 9
