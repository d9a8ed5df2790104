"""Slots of jobs: claimed by the first firing, finished once, asked for again by a person."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from adapters.postgres.jobs import JOB_COLUMNS, job_of, profile_document
from adapters.postgres.pool import Connection, Pool, Row, reconnecting
from domain.errors import ErrorCode, InvalidInput, NotFound, Transient
from domain.jobs import Job, JobStatus, SlotStatus, slot_run_id
from domain.slots import Slot, SlotWindow, next_due

_SLOT = """
s.job_id, s.slot, s.status, s.attempt, s.reopened, s.scheduled_at, s.workflow_id, s.started_at,
s.finished_at, s.error_code, s.error_message
"""
_WINDOWS = """
ARRAY(SELECT json_build_object('attempt', w.attempt, 'number', w.number, 'said', w.user_messages,
                               'status', w.status, 'code', w.error_code, 'message', w.error_message)
      FROM job_windows w WHERE w.job_id = s.job_id AND w.slot = s.slot
      ORDER BY w.attempt, w.number) AS windows
"""
_LIST = f"""
SELECT {_SLOT}, {_WINDOWS} FROM job_slots s
WHERE s.job_id = $1 AND s.owner_id = $2 AND ($3::text IS NULL OR s.slot < $3)
ORDER BY s.slot DESC LIMIT $4
"""  # noqa: S608 (a constant)
_GET = f"""
SELECT {_SLOT}, {_WINDOWS} FROM job_slots s
WHERE s.job_id = $1 AND s.owner_id = $2 AND s.slot = $3
"""  # noqa: S608
_REOPEN = """
UPDATE job_slots SET reopened = true
WHERE job_id = $1 AND owner_id = $2 AND slot = ANY($3::text[]) AND status <> 'running'
RETURNING slot
"""
_CLOSE_AGAIN = """
UPDATE job_slots SET reopened = false
WHERE job_id = $1 AND owner_id = $2 AND slot = ANY($3::text[]) AND status <> 'running'
"""
_LOCK_JOB = f"SELECT {JOB_COLUMNS} FROM automation_jobs j WHERE j.id = $1 FOR UPDATE"  # noqa: S608
_HELD = """
SELECT status, attempt, reopened, workflow_run_id FROM job_slots WHERE job_id = $1 AND slot = $2
"""
_OTHER = """
SELECT slot FROM job_slots
WHERE job_id = $1 AND status = 'running' AND slot <> $2 AND workflow_run_id <> $3 LIMIT 1
"""
_CLAIM = """
INSERT INTO job_slots AS s (job_id, slot, owner_id, scheduled_at, workflow_id, workflow_run_id,
                            snapshot)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (job_id, slot) DO UPDATE
SET status = 'running', attempt = s.attempt + 1, workflow_id = $5, workflow_run_id = $6,
    snapshot = $7, error_code = NULL, error_message = NULL, started_at = now(), finished_at = NULL
RETURNING s.attempt
"""
_FINISH = """
UPDATE job_slots
SET status = $4, error_code = $5, error_message = $6, finished_at = now(),
    reopened = reopened AND $4 = 'failed'
WHERE job_id = $1 AND slot = $2 AND workflow_run_id = $3 AND status = 'running'
RETURNING owner_id, attempt
"""
_AFTER_SLOT = """
UPDATE automation_jobs
SET last_run_at = now(), next_run_at = $3,
    failed_in_a_row = CASE WHEN $2 = 'failed' THEN failed_in_a_row + 1 ELSE 0 END,
    status = CASE WHEN schedule_type = 'once' AND status = 'active' AND $2 <> 'failed'
             THEN 'completed' ELSE status END
WHERE id = $1
RETURNING failed_in_a_row
"""
_ALERT = """
INSERT INTO audit (owner_id, kind, origin, dedupe_key, detail)
VALUES ($1, 'job_alert', 'automation', $2, $3)
ON CONFLICT (dedupe_key) DO NOTHING
"""

ALERT_AFTER = 3
"""That many failed slots in a row are an alert, and each one after them."""


class Refusal(StrEnum):
    """Why a firing runs nothing."""

    DUPLICATE = "duplicate_slot"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a firing got. `attempt`: of the slot, from 1; 0 with a refusal. `reread`: what earlier
    attempts read is to be read again."""

    job: Job
    attempt: int
    reread: bool = False
    refusal: Refusal | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """The firing that wants a slot, and when it was due."""

    workflow_id: str
    workflow_run_id: str
    scheduled_at: datetime


class SlotStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def list(
        self, owner_id: UUID, job_id: UUID, *, before: str | None = None, limit: int = 50
    ) -> list[Slot]:
        """Latest slot first, each with its windows. `before`: the last slot seen."""
        rows = await self._pool.fetch(_LIST, job_id, owner_id, before, limit)
        return [_slot(row) for row in rows]

    @reconnecting
    async def get(self, owner_id: UUID, job_id: UUID, slot: str) -> Slot:
        """Raises NotFound, for a slot that was never claimed too."""
        row = await self._pool.fetchrow(_GET, job_id, owner_id, slot)
        if row is None:
            raise NotFound(f"Slot {slot[:40]} has not run.")
        return _slot(row)

    @reconnecting
    async def reopen(self, owner_id: UUID, job_id: UUID, slots: Sequence[str]) -> tuple[str, ...]:
        """Let the next firing run these again, reading what they read; those that could be."""
        rows = await self._pool.fetch(_REOPEN, job_id, owner_id, list(slots))
        return tuple(sorted(row["slot"] for row in rows))

    @reconnecting
    async def close_again(self, owner_id: UUID, job_id: UUID, slots: Sequence[str]) -> None:
        """Undo `reopen`, for when the firing could not be asked for."""
        await self._pool.execute(_CLOSE_AGAIN, job_id, owner_id, list(slots))

    @reconnecting
    async def claim(self, job_id: UUID, slot: str, holder: Holder) -> Claim:
        """Take the slot for this firing, or say why not. Asked again by its holder: the same.

        Raises NotFound for a job that never was, and Transient while another firing holds another
        slot of the job: both would read the same messages. A Schedule keeps them apart as long as
        nobody deletes it in between.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            row = await connection.fetchrow(_LOCK_JOB, job_id)
            if row is None:
                raise NotFound(f"There is no job {job_id}.")
            job = job_of(row)
            held = await connection.fetchrow(_HELD, job_id, slot)
            if held is not None and held["workflow_run_id"] == holder.workflow_run_id:
                return Claim(job, held["attempt"], held["reopened"])
            if job.status is not JobStatus.ACTIVE:
                return Claim(job, 0, False, Refusal.SKIPPED, f"The job is {job.status}.")
            if held is not None and not _free(held):
                reason = f"Slot {slot} is taken: {held['status']}."
                return Claim(job, 0, False, Refusal.DUPLICATE, reason)
            await _alone(connection, job_id, slot, holder)
            attempt = await connection.fetchval(
                _CLAIM,
                job_id,
                slot,
                job.owner_id,
                holder.scheduled_at,
                holder.workflow_id,
                holder.workflow_run_id,
                _snapshot(job),
            )
            return Claim(job, attempt, held is not None and held["reopened"])

    @reconnecting
    async def finish(
        self,
        job_id: UUID,
        slot: str,
        workflow_run_id: str,
        status: SlotStatus,
        error: tuple[str, str] | None = None,
    ) -> int | None:
        """End a slot that this firing holds, and what follows for its job. `error`: (code, words).

        Returns how many slots of the job have now failed in a row; None if it had ended before.
        """
        code, message = error or (None, None)
        async with self._pool.acquire() as connection, connection.transaction():
            row = await connection.fetchrow(_LOCK_JOB, job_id)
            ended = await connection.fetchrow(
                _FINISH, job_id, slot, workflow_run_id, status, code, message
            )
            if row is None or ended is None:
                return None
            job = job_of(row)
            now = await connection.fetchval("SELECT now()")
            due = next_due(job.timetable, now) if job.status is JobStatus.ACTIVE else None
            failed = await connection.fetchval(_AFTER_SLOT, job_id, status, due)
            if failed >= ALERT_AFTER:
                key = f"job_alert:{job_id}:{slot}:{ended['attempt']}"
                detail = {"job_id": str(job_id), "slot": slot, "failed": failed, "code": code}
                await connection.execute(_ALERT, ended["owner_id"], key, json.dumps(detail))
            return failed


async def _alone(connection: Connection, job_id: UUID, slot: str, holder: Holder) -> None:
    other = await connection.fetchval(_OTHER, job_id, slot, holder.workflow_run_id)
    if other is not None:
        raise Transient(f"Slot {other} of the job is still running.", ErrorCode.OVERLOADED)


def _free(held: Row) -> bool:
    if held["status"] == SlotStatus.RUNNING:
        return False
    return held["status"] == SlotStatus.FAILED or held["reopened"]


def _snapshot(job: Job) -> str:
    """The job as this slot runs it, whatever becomes of it meanwhile; old fields left behind."""
    try:
        profile = json.loads(profile_document(job.profile))
    except InvalidInput:
        profile = None  # an unreadable one: the slot fails, and says so
    config = {"prompt": job.config.prompt, "tools": job.config.tools}
    return json.dumps({"config": config, "profile": profile})


def _slot(row: Row) -> Slot:
    windows = [json.loads(text) for text in row["windows"]]
    return Slot(
        job_id=row["job_id"],
        slot=row["slot"],
        status=SlotStatus(row["status"]),
        attempt=row["attempt"],
        reopened=row["reopened"],
        scheduled_at=row["scheduled_at"],
        workflow_id=row["workflow_id"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        error_code=row["error_code"],
        error_message=row["error_message"],
        windows=tuple(
            SlotWindow(
                attempt=w["attempt"],
                number=w["number"],
                run_id=slot_run_id(row["job_id"], row["slot"], w["attempt"], w["number"]),
                user_messages=w["said"],
                status=w["status"],
                error_code=w["code"],
                error_message=w["message"],
            )
            for w in windows
        ),
    )
