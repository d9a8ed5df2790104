"""What a job may look like, and what a change makes of it."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from domain.errors import InvalidInput
from domain.job_rules import checked
from domain.jobs import (
    Job,
    JobChange,
    JobConfig,
    JobStatus,
    NewJob,
    ScheduleType,
    Timetable,
    memory_config,
)

NOW = datetime(2027, 1, 1, 12, tzinfo=UTC)  # a Friday; in Kiritimati a Saturday
TOOLS = ("memory_write", "memory_search")
JOB = NewJob(
    "Daily", Timetable(ScheduleType.DAILY, "", "Asia/Shanghai"), JobConfig("Look.", TOOLS[:1])
)


def times(type: ScheduleType, run_at: str, zone: str = "UTC", day: int | None = None) -> NewJob:
    return replace(JOB, timetable=Timetable(type, run_at, zone, day))


def stored(new: NewJob) -> Job:
    ages = {"expected_from": NOW, "created_at": NOW, "updated_at": NOW}
    return Job(
        uuid4(),
        uuid4(),
        new.title,
        new.timetable,
        JobStatus.ACTIVE,
        new.config,
        new.profile,
        None,
        next_run_at=None,
        last_run_at=None,
        missed=0,
        failed_in_a_row=0,
        **ages,
    )


def test_what_is_left_out_has_a_default() -> None:
    assert checked(JOB, now=NOW, tools=TOOLS).timetable.run_at == "10:00"
    weekly = times(ScheduleType.WEEKLY, "", "Pacific/Kiritimati")
    assert checked(weekly, now=NOW).timetable.weekday == 6
    once = times(ScheduleType.ONCE, "2027-03-14T10:00:42+08:00")
    assert checked(once, now=NOW).timetable.run_at == "2027-03-14T02:00+00:00"


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (replace(JOB, title=" "), "title"),
        (replace(JOB, title="x" * 201), "title"),
        (replace(JOB, config=JobConfig(" \n", ())), "config.prompt"),
        (replace(JOB, config=JobConfig("x" * 2_001, ())), "config.prompt"),
        (replace(JOB, config=JobConfig("x", ("memory_write", "rm_rf"))), "config.tools.1"),
        (times(ScheduleType.DAILY, "24:00"), "run_at"),
        (times(ScheduleType.DAILY, "9:00"), "run_at"),
        (times(ScheduleType.DAILY, "10:00\n"), "run_at"),
        (times(ScheduleType.DAILY, "10:00", "Mars/Base"), "timezone"),
        (times(ScheduleType.DAILY, "10:00", "../etc/passwd"), "timezone"),
        (times(ScheduleType.DAILY, "10:00", "localtime"), "timezone"),
        (times(ScheduleType.DAILY, "10:00", "Factory"), "timezone"),
        (times(ScheduleType.DAILY, "10:00", "right/UTC"), "timezone"),
        (times(ScheduleType.DAILY, "10:00", "UTC", 1), "weekday"),
        (times(ScheduleType.WEEKLY, "10:00", "UTC", 8), "weekday"),
        (times(ScheduleType.CRON, "61 * * * *"), "run_at"),
        (times(ScheduleType.ONCE, "tomorrow"), "run_at"),
        (times(ScheduleType.ONCE, "2027-03-14T10:00"), "run_at"),
        (times(ScheduleType.ONCE, "2026-03-14T10:00Z"), "run_at"),
        (times(ScheduleType.ONCE, "0001-01-01T00:00+23:59"), "run_at"),
        (times(ScheduleType.ONCE, "9999-12-31T23:59-12:00"), "run_at"),
    ],
)
def test_a_refusal_names_the_field(new: NewJob, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked(new, now=NOW, tools=TOOLS)
    assert refused.value.field == field


def test_a_change_leaves_the_rest_alone() -> None:
    job = stored(checked(times(ScheduleType.WEEKLY, "08:00", "UTC", 3), now=NOW))
    same = JobChange(title="Other").applied_to(job)
    assert (same.title, same.timetable, same.config) == ("Other", job.timetable, job.config)
    days = JobChange(type=ScheduleType.DAILY).applied_to(job).timetable
    assert days == Timetable(ScheduleType.DAILY, "08:00", "UTC")
    with pytest.raises(InvalidInput):
        checked(JobChange(type=ScheduleType.CRON).applied_to(job), now=NOW)


def test_a_change_may_set_a_list_to_nothing() -> None:
    assert JobChange(tools=()).applied_to(stored(JOB)).config.tools == ()


def test_the_daily_memory_job_speaks_the_users_language() -> None:
    assert memory_config("zh-CN")[0] == memory_config("zh")[0] == "每日记忆"
    assert memory_config("de")[0] == "Daily memory"
