"""Cron expressions: what they mean and what is refused."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.cron import parse
from domain.errors import InvalidInput


def after(expression: str, instant: str, zone: str = "UTC") -> str | None:
    found = parse(expression).next_after(datetime.fromisoformat(instant), ZoneInfo(zone))
    return None if found is None else found.astimezone(ZoneInfo(zone)).isoformat("T", "minutes")


@pytest.mark.parametrize(
    ("expression", "instant", "then"),
    [
        ("*/5 * * * *", "2027-01-01T00:01Z", "2027-01-01T00:05+00:00"),
        ("5/15 * * * *", "2027-01-01T00:20Z", "2027-01-01T00:35+00:00"),
        ("0 9 * * MON-FRI", "2027-01-01T09:00Z", "2027-01-04T09:00+00:00"),
        ("0 0 29 2 *", "2027-01-01T00:00Z", "2028-02-29T00:00+00:00"),
        ("0 0 13 * 5", "2027-01-02T00:00Z", "2027-01-08T00:00+00:00"),  # either of the two
        ("0 9 * * 7", "2027-01-01T00:00Z", "2027-01-03T09:00+00:00"),
        ("0 0 1 jan,JUL *", "2027-01-01T00:00Z", "2027-07-01T00:00+00:00"),
    ],
)
def test_when_it_is_due(expression: str, instant: str, then: str) -> None:
    assert after(expression, instant) == then


def test_a_time_left_out_is_skipped_and_one_that_comes_twice_fires_twice() -> None:
    zone = "America/New_York"
    assert after("30 2 * * *", "2027-03-13T12:00Z", zone) == "2027-03-15T02:30-04:00"
    assert after("30 1 * * *", "2027-11-07T05:30Z", zone) == "2027-11-07T01:30-05:00"


@pytest.mark.parametrize(
    "expression",
    [
        *("", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *"),
        *("* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *", "1/ * * * *", "@daily x x x x"),
        *("0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 L * *", "a * * * *", "١ * * * *", ", * * * *"),
    ],
)
def test_what_is_wrong_is_refused(expression: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(expression)
    assert refused.value.field == "run_at"


@given(st.text(alphabet="0123456789*/-, MONJAN", max_size=30))
def test_whatever_is_written_is_read_or_refused(expression: str) -> None:
    try:
        cron = parse(expression)
    except InvalidInput:
        return
    assert cron.next_after(datetime(2027, 1, 1, tzinfo=UTC), ZoneInfo("UTC")) is not None
