"""Jobs as the database keeps them."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from adapters.postgres.job_migration import JobMigration
from adapters.postgres.jobs import JobStore
from adapters.postgres.pool import Pool
from adapters.postgres.users import UserStore
from domain.errors import InvalidInput, NotFound
from domain.jobs import (
    DAILY_MEMORY,
    MEMORY_PROFILE,
    MEMORY_TOOLS,
    JobChange,
    JobStatus,
    ScheduleType,
    Timetable,
)
from tests.jobs import daily
from tests.people import add_owner

OLD = {
    "name": "old",
    "executor": "worker",
    "model": {"name": "qwen3.5-flash"},
    "enable_router": True,
    "history_policy": {"window": "today_yesterday"},
}


async def test_every_user_has_the_daily_memory_job(pool: Pool) -> None:
    user = await UserStore(pool).add_user("ann", locale="zh-CN", timezone="Europe/London")
    [job] = await JobStore(pool).list(user.id)
    assert job.timetable == Timetable(ScheduleType.DAILY, "10:00", "Europe/London")
    assert (job.builtin, job.profile, job.config.tools) == (
        *(DAILY_MEMORY, MEMORY_PROFILE),
        MEMORY_TOOLS,
    )
    assert job.title == "每日记忆"
    assert job.next_run_at is not None
    assert job.next_run_at > datetime.now(UTC)


async def test_a_user_without_one_is_given_one_once(pool: Pool) -> None:
    owner, jobs = await add_owner(pool), JobStore(pool)
    first = await jobs.ensure_daily_memory(owner, "en", "UTC")
    assert await jobs.ensure_daily_memory(owner, "en", "UTC") == first
    await jobs.set_status(owner, first.id, JobStatus.DELETED)
    assert (await jobs.ensure_daily_memory(owner, "en", "UTC")).status is JobStatus.DELETED
    assert await jobs.list(owner) == []


async def test_a_user_that_is_refused_leaves_no_job(pool: Pool) -> None:
    users = UserStore(pool)
    await users.add_user("ann")
    with pytest.raises(InvalidInput):
        await users.add_user("ann")
    assert await pool.fetchval("SELECT count(*) FROM automation_jobs") == 1


async def test_a_job_is_its_owners_alone(pool: Pool) -> None:
    owner, other, jobs = await add_owner(pool), await add_owner(pool), JobStore(pool)
    job = await jobs.create(owner, daily())
    assert await jobs.get(owner, job.id) == job
    assert await jobs.list(other) == []
    for attempt in (
        jobs.get(other, job.id),
        jobs.update(other, job.id, JobChange(title="mine")),
        jobs.set_status(other, job.id, JobStatus.DELETED),
        jobs.get(owner, uuid4()),
    ):
        with pytest.raises(NotFound):
            await attempt


async def test_jobs_are_listed_newest_first_in_pages(pool: Pool) -> None:
    owner, jobs = await add_owner(pool), JobStore(pool)
    made = [await jobs.create(owner, daily()) for _ in range(5)]
    first = await jobs.list(owner, limit=3)
    rest = await jobs.list(owner, before=(first[-1].created_at, first[-1].id))
    assert first + rest == made[::-1]
    await jobs.set_status(owner, made[0].id, JobStatus.PAUSED)
    await jobs.set_status(owner, made[1].id, JobStatus.DELETED)
    assert [j.id for j in await jobs.list(owner, status=JobStatus.PAUSED)] == [made[0].id]
    assert len(await jobs.list(owner)) == 4


async def test_what_fell_due_while_paused_is_not_owed(pool: Pool) -> None:
    owner, jobs = await add_owner(pool), JobStore(pool)
    job = await jobs.create(owner, daily())
    paused = await jobs.set_status(owner, job.id, JobStatus.PAUSED)
    assert (paused.next_run_at, paused.expected_from) == (None, job.expected_from)
    resumed = await jobs.set_status(owner, job.id, JobStatus.ACTIVE)
    assert resumed.expected_from > job.expected_from
    assert await jobs.set_status(owner, job.id, JobStatus.ACTIVE) == resumed


async def test_a_new_time_or_zone_owes_what_was_owed_and_new_days_owe_nothing_old(
    pool: Pool,
) -> None:
    owner, jobs = await add_owner(pool), JobStore(pool)
    job = await jobs.create(owner, daily())
    moved = await jobs.update(owner, job.id, JobChange(run_at="23:00", timezone="Europe/London"))
    assert moved.expected_from == job.expected_from
    assert moved.next_run_at != job.next_run_at
    weekly = await jobs.update(owner, job.id, JobChange(type=ScheduleType.WEEKLY, weekday=2))
    assert weekly.expected_from > job.expected_from


async def test_a_completed_job_runs_again_at_a_new_time(pool: Pool) -> None:
    owner, jobs = await add_owner(pool), JobStore(pool)
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    once = replace(daily(), timetable=Timetable(ScheduleType.ONCE, soon, "UTC"))
    job = await jobs.create(owner, once)
    await pool.execute("UPDATE automation_jobs SET status = 'completed'")
    with pytest.raises(InvalidInput):
        await jobs.set_status(owner, job.id, JobStatus.ACTIVE)
    assert (await jobs.update(owner, job.id, JobChange(title="x"))).status is JobStatus.COMPLETED
    later = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    again = await jobs.update(owner, job.id, JobChange(run_at=later))
    assert again.status is JobStatus.ACTIVE


async def test_a_wrong_profile_is_refused_by_its_path(pool: Pool) -> None:
    owner, jobs = await add_owner(pool), JobStore(pool)
    with pytest.raises(InvalidInput) as refused:
        await jobs.create(owner, daily(profile={**OLD, "executor": "magic"}))
    assert refused.value.field == "execution_profile.executor"


async def old_jobs(pool: Pool, count: int) -> None:
    owner = await add_owner(pool)
    await pool.execute(
        """
        INSERT INTO automation_jobs (owner_id, title, schedule_type, run_at, timezone, config,
                                     execution_profile)
        SELECT $1, 'Daily', 'daily', '10:00', 'UTC', '{"prompt": "x", "tools": []}', $2
        FROM generate_series(1, $3)
        """,
        owner,
        json.dumps(OLD),
        count,
    )


async def test_old_jobs_are_readable_and_rewritten_in_batches(pool: Pool) -> None:
    await old_jobs(pool, 25)
    await JobStore(pool).create(await add_owner(pool), daily())
    migration, sums = JobMigration(pool), list[int]()
    assert await migration.left() == 25
    done = await migration.run(10, lambda sum: sums.append(sum.changed))
    assert (done.changed, done.unreadable, sums) == (25, 0, [10, 20, 25])
    assert await migration.left() == 0
    again = await migration.run(10)
    assert (again.changed, again.unreadable) == (0, 0)
    text = str([dict(r) for r in await pool.fetch("SELECT execution_profile FROM automation_jobs")])
    assert "enable_router" not in text
    assert "today_yesterday" not in text
    kept = await pool.fetchval(
        "SELECT count(*) FROM automation_jobs "
        "WHERE execution_profile->'history_policy'->>'n' = '20'"
    )
    assert kept == 25


async def test_a_migration_stopped_half_way_goes_on_where_it_was(pool: Pool) -> None:
    await old_jobs(pool, 25)
    migration = JobMigration(pool)

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await migration.run(10, stop)
    assert await migration.left() == 15
    assert (await migration.run(10)).changed == 15


async def test_a_job_that_is_wrong_in_another_way_too_is_counted_and_left(pool: Pool) -> None:
    await old_jobs(pool, 2)
    await pool.execute(
        "UPDATE automation_jobs SET execution_profile = execution_profile - 'model' "
        "WHERE id = (SELECT id FROM automation_jobs LIMIT 1)"
    )
    done = await JobMigration(pool).run()
    assert (done.changed, done.unreadable) == (1, 1)
