"""What lists and metrics show of many jobs at once: last slots, what stands where, counts."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from adapters.postgres.pool import Pool, reconnecting
from domain.jobs import SlotStatus
from domain.slots import Slot

_LAST = """
SELECT s.job_id, s.slot, s.status, s.attempt, s.reopened, s.scheduled_at, s.workflow_id,
       s.started_at, s.finished_at, s.error_code, s.error_message
FROM unnest($1::uuid[]) AS j(id)
CROSS JOIN LATERAL (
    SELECT * FROM job_slots WHERE job_id = j.id AND owner_id = $2 ORDER BY slot DESC LIMIT 1
) s
"""
_STANDING = """
SELECT slot, status, reopened FROM job_slots
WHERE job_id = $1 AND owner_id = $2 AND slot = ANY($3::text[])
"""
_JOBS = """
SELECT status, count(*) AS jobs, sum(missed) AS missed,
       count(*) FILTER (WHERE failed_in_a_row >= $1) AS failing
FROM automation_jobs GROUP BY status
"""
_SLOTS = """
SELECT status, count(*) AS slots FROM job_slots
WHERE started_at > now() - interval '1 day' GROUP BY status
"""
_OLDEST = "SELECT min(started_at) FROM job_slots WHERE status = 'running'"


@dataclass(frozen=True, slots=True)
class Standing:
    """How a slot stands that was claimed at least once. `reopened`: the next firing takes it."""

    status: SlotStatus
    reopened: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """Of all jobs. `slots`: those that began within a day, by outcome."""

    jobs: dict[str, int]
    missed: int
    failing: int  # jobs with so many failed slots in a row that it is an alert
    slots: dict[str, int]
    oldest_running: datetime | None


class JobOverview:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def last_slots(self, owner_id: UUID, jobs: Collection[UUID]) -> dict[UUID, Slot]:
        """Of each of these jobs that has one, without its windows."""
        rows = await self._pool.fetch(_LAST, list(jobs), owner_id)
        return {row["job_id"]: _slot(dict(row)) for row in rows}

    @reconnecting
    async def standing(
        self, owner_id: UUID, job_id: UUID, slots: Sequence[str]
    ) -> dict[str, Standing]:
        """Those of these slots that were claimed."""
        rows = await self._pool.fetch(_STANDING, job_id, owner_id, list(slots))
        return {row["slot"]: Standing(SlotStatus(row["status"]), row["reopened"]) for row in rows}

    @reconnecting
    async def figures(self, alert_after: int) -> Figures:
        async with self._pool.acquire() as connection:
            jobs = await connection.fetch(_JOBS, alert_after)
            slots = await connection.fetch(_SLOTS)
            oldest = await connection.fetchval(_OLDEST)
        alive = [row for row in jobs if row["status"] == "active"]
        return Figures(
            jobs={row["status"]: row["jobs"] for row in jobs},
            missed=sum(row["missed"] for row in alive),
            failing=sum(row["failing"] for row in alive),
            slots={row["status"]: row["slots"] for row in slots},
            oldest_running=oldest,
        )


def _slot(row: dict[str, Any]) -> Slot:
    fields: dict[str, Any] = {**row, "status": SlotStatus(row["status"])}
    return Slot(**fields)
