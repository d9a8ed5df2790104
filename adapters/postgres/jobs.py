"""Automation jobs: written, changed and read by their owner."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import asyncpg

from adapters import profile_format
from adapters.postgres.pool import Pool, Queries, Row, constraint, reconnecting
from domain.errors import InvalidInput, NotFound
from domain.job_rules import checked
from domain.jobs import (
    DAILY_MEMORY,
    DEFAULT_RUN_AT,
    Job,
    JobChange,
    JobConfig,
    JobStatus,
    NewJob,
    ScheduleType,
    Timetable,
    memory_config,
)
from domain.slots import next_due

JOB_COLUMNS = """
j.id, j.owner_id, j.title, j.schedule_type, j.run_at, j.weekday, j.timezone, j.status, j.config,
j.execution_profile, j.builtin, j.expected_from, j.next_run_at, j.last_run_at, j.missed,
j.failed_in_a_row, j.created_at, j.updated_at
"""

_INSERT = f"""
INSERT INTO automation_jobs AS j
    (owner_id, title, schedule_type, run_at, weekday, timezone, config, execution_profile, builtin,
     next_run_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
RETURNING {JOB_COLUMNS}
"""  # noqa: S608 (a constant)
_GET = f"""
SELECT {JOB_COLUMNS} FROM automation_jobs j
WHERE j.id = $1 AND j.owner_id = $2 AND j.status <> 'deleted'
"""  # noqa: S608
_GET_FOR_UPDATE = f"{_GET} FOR UPDATE"
_GET_BY_ID = f"SELECT {JOB_COLUMNS} FROM automation_jobs j WHERE j.id = $1"  # noqa: S608
_LIST = f"""
SELECT {JOB_COLUMNS} FROM automation_jobs j
WHERE j.owner_id = $1 AND j.status <> 'deleted'
  AND ($2::text IS NULL OR j.status = $2)
  AND ($3::timestamptz IS NULL OR (j.created_at, j.id) < ($3, $4))
ORDER BY j.created_at DESC, j.id DESC LIMIT $5
"""  # noqa: S608
_BUILTIN = f"""
SELECT {JOB_COLUMNS} FROM automation_jobs j WHERE j.owner_id = $1 AND j.builtin = $2
ORDER BY j.status = 'deleted', j.created_at DESC LIMIT 1
"""  # noqa: S608
_UPDATE = f"""
UPDATE automation_jobs AS j
SET title = $2, schedule_type = $3, run_at = $4, weekday = $5, timezone = $6, config = $7,
    execution_profile = $8, status = $9, next_run_at = $10, updated_at = now(),
    expected_from = CASE WHEN $11 THEN now() ELSE j.expected_from END
WHERE j.id = $1
RETURNING {JOB_COLUMNS}
"""  # noqa: S608
_SET_STATUS = f"""
UPDATE automation_jobs AS j
SET status = $2, next_run_at = $3, updated_at = now(),
    expected_from = CASE WHEN $2 = 'active' THEN now() ELSE j.expected_from END,
    missed = 0
WHERE j.id = $1
RETURNING {JOB_COLUMNS}
"""  # noqa: S608


class JobStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def create(self, owner_id: UUID, new: NewJob) -> Job:
        """Raises InvalidInput naming the field. Whether tools and a profile's name exist is for
        the caller to know."""
        try:
            return await insert(self._pool, owner_id, checked(new, now=datetime.now(UTC)))
        except asyncpg.UniqueViolationError as error:
            if constraint(error) != "automation_jobs_builtin_unique":
                raise
            raise InvalidInput("builtin", "The owner has this job already.") from error

    async def ensure_daily_memory(self, owner_id: UUID, locale: str, timezone: str) -> Job:
        """The owner's daily memory job, made if they never had one. One they deleted stays so."""
        found = await self._pool.fetchrow(_BUILTIN, owner_id, DAILY_MEMORY)
        if found is None:
            try:
                return await insert(self._pool, owner_id, daily_memory(locale, timezone))
            except asyncpg.UniqueViolationError:  # a twin was faster
                found = await self._pool.fetchrow(_BUILTIN, owner_id, DAILY_MEMORY)
        return _found(found)

    @reconnecting
    async def get(self, owner_id: UUID, job_id: UUID) -> Job:
        """Raises NotFound, for a deleted job and another owner's too."""
        return _found(await self._pool.fetchrow(_GET, job_id, owner_id))

    @reconnecting
    async def get_by_id(self, job_id: UUID) -> Job:
        """For our own processes, which act for no one: deleted ones too. Raises NotFound."""
        return _found(await self._pool.fetchrow(_GET_BY_ID, job_id))

    @reconnecting
    async def list(
        self,
        owner_id: UUID,
        *,
        status: JobStatus | None = None,
        before: tuple[datetime, UUID] | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """Newest first, without deleted ones. `before`: (created_at, id) of the last one seen."""
        at, id = before or (None, None)
        rows = await self._pool.fetch(_LIST, owner_id, status, at, id, limit)
        return [job_of(row) for row in rows]

    async def update(self, owner_id: UUID, job_id: UUID, change: JobChange) -> Job:
        """Raises NotFound and InvalidInput. A new time makes a completed job active again."""
        now = datetime.now(UTC)
        async with self._pool.acquire() as connection, connection.transaction():
            job = _found(await connection.fetchrow(_GET_FOR_UPDATE, job_id, owner_id))
            new = checked(change.applied_to(job), now=now, timetable=change.times)
            again = job.status is JobStatus.COMPLETED and new.timetable != job.timetable
            status = JobStatus.ACTIVE if again else job.status
            row = await connection.fetchrow(
                _UPDATE,
                job_id,
                *_columns(new),
                status,
                next_due(new.timetable, now) if status is JobStatus.ACTIVE else None,
                again or _other_days(job.timetable, new.timetable),
            )
            return _found(row)

    async def set_status(self, owner_id: UUID, job_id: UUID, status: JobStatus) -> Job:
        """Pause, resume or delete. What fell due while it was paused is not owed.

        Raises NotFound, and InvalidInput for a completed job that is to be paused or resumed.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            job = _found(await connection.fetchrow(_GET_FOR_UPDATE, job_id, owner_id))
            if job.status is status:
                return job
            if job.status is JobStatus.COMPLETED and status is not JobStatus.DELETED:
                raise InvalidInput("status", "The job has run; give it a new time instead.")
            active = status is JobStatus.ACTIVE
            due = next_due(job.timetable, datetime.now(UTC)) if active else None
            return _found(await connection.fetchrow(_SET_STATUS, job_id, status, due))


async def insert(connection: Queries, owner_id: UUID, new: NewJob) -> Job:
    """Write a job that was checked, within whatever transaction the caller is in."""
    due = next_due(new.timetable, datetime.now(UTC))
    row = await connection.fetchrow(_INSERT, owner_id, *_columns(new), new.builtin, due)
    return _found(row)


def daily_memory(locale: str, timezone: str) -> NewJob:
    """The job that every user is given."""
    title, config = memory_config(locale)
    timetable = Timetable(ScheduleType.DAILY, DEFAULT_RUN_AT, timezone)
    return NewJob(title, timetable, config, builtin=DAILY_MEMORY)


def _columns(new: NewJob) -> tuple[object, ...]:
    times = new.timetable
    return (
        new.title,
        times.type,
        times.run_at,
        times.weekday,
        times.timezone,
        json.dumps({"prompt": new.config.prompt, "tools": new.config.tools}),
        profile_document(new.profile),
    )


def profile_document(profile: str | Mapping[str, Any]) -> str:
    """As JSON: a name, or a whole profile without its old fields. Raises InvalidInput."""
    if isinstance(profile, str):
        return json.dumps(profile)
    try:
        return profile_format.dump(profile_format.load(dict(profile)))
    except InvalidInput as error:
        path = f"execution_profile.{error.field}" if error.field else "execution_profile"
        raise InvalidInput(path, str(error)) from error


def _other_days(old: Timetable, new: Timetable) -> bool:
    """Whether the job's slots are others from now on: what it then owes counts from now on."""
    if old.type is not new.type or old.weekday != new.weekday:
        return True
    return not new.type.dated and old.run_at != new.run_at


def _found(row: Row | None) -> Job:
    if row is None:
        raise NotFound("There is no such job.")
    return job_of(row)


def job_of(row: Row) -> Job:
    config = json.loads(row["config"])
    return Job(
        id=row["id"],
        owner_id=row["owner_id"],
        title=row["title"],
        timetable=Timetable(
            ScheduleType(row["schedule_type"]), row["run_at"], row["timezone"], row["weekday"]
        ),
        status=JobStatus(row["status"]),
        config=JobConfig(config["prompt"], tuple(config["tools"])),
        profile=json.loads(row["execution_profile"]),
        builtin=row["builtin"],
        expected_from=row["expected_from"],
        next_run_at=row["next_run_at"],
        last_run_at=row["last_run_at"],
        missed=row["missed"],
        failed_in_a_row=row["failed_in_a_row"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
