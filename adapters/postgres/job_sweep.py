"""Jobs by ranges of their ids, for the reconciler: it pages, and never holds all of them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from adapters.postgres.jobs import JOB_COLUMNS, job_of
from adapters.postgres.pool import Pool, reconnecting
from domain.jobs import Job

_COUNT = "SELECT count(*) FROM automation_jobs WHERE status IN ('active', 'paused')"
_PAGE = f"""
SELECT {JOB_COLUMNS} FROM automation_jobs j
WHERE j.id BETWEEN $1 AND $2 AND ($3::uuid IS NULL OR j.id > $3)
  AND j.status IN ('active', 'paused')
ORDER BY j.id LIMIT $4
"""  # noqa: S608 (a constant)
_SCHEDULED = """
SELECT id FROM automation_jobs WHERE id = ANY($1::uuid[]) AND status IN ('active', 'paused')
"""
_CLAIMED = "SELECT job_id, slot FROM job_slots WHERE job_id = ANY($1::uuid[]) AND slot >= $2"
_MIRROR = """
UPDATE automation_jobs AS j SET next_run_at = m.next_run_at, missed = m.missed
FROM unnest($1::uuid[], $2::timestamptz[], $3::int[]) AS m(id, next_run_at, missed)
WHERE j.id = m.id AND j.status IN ('active', 'paused')
"""
_RUNNING = """
SELECT job_id, slot, workflow_id, workflow_run_id FROM job_slots
WHERE status = 'running' AND started_at < $1
  AND ($2::uuid IS NULL OR (job_id, slot) > ($2, $3))
ORDER BY job_id, slot LIMIT $4
"""


@dataclass(frozen=True, slots=True)
class RunningSlot:
    job_id: UUID
    slot: str
    workflow_id: str
    workflow_run_id: str


@dataclass(frozen=True, slots=True)
class Mirror:
    """What a job's row says for lists."""

    job_id: UUID
    next_run_at: datetime | None
    missed: int


class JobSweepStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def count(self) -> int:
        """How many jobs should have a Schedule."""
        return await self._pool.fetchval(_COUNT)

    @reconnecting
    async def page(self, first: UUID, last: UUID, after: UUID | None, limit: int) -> list[Job]:
        """Jobs that should have a Schedule, with ids from `first` to `last`, by id."""
        rows = await self._pool.fetch(_PAGE, first, last, after, limit)
        return [job_of(row) for row in rows]

    @reconnecting
    async def scheduled(self, ids: Collection[UUID]) -> set[UUID]:
        """Those of these that should have a Schedule."""
        return {row["id"] for row in await self._pool.fetch(_SCHEDULED, list(ids))}

    @reconnecting
    async def claimed(self, jobs: Collection[UUID], since: str) -> dict[UUID, set[str]]:
        """The slots of these jobs that were claimed, from the slot `since` on."""
        found: defaultdict[UUID, set[str]] = defaultdict(set)
        for row in await self._pool.fetch(_CLAIMED, list(jobs), since):
            found[row["job_id"]].add(row["slot"])
        return dict(found)

    @reconnecting
    async def mirror(self, mirrors: Sequence[Mirror]) -> None:
        await self._pool.execute(
            _MIRROR,
            [m.job_id for m in mirrors],
            [m.next_run_at for m in mirrors],
            [m.missed for m in mirrors],
        )

    @reconnecting
    async def running(
        self, before: datetime, after: RunningSlot | None, limit: int
    ) -> list[RunningSlot]:
        """Slots that were claimed before then and have no end, in pages."""
        job_id, slot = (None, None) if after is None else (after.job_id, after.slot)
        rows = await self._pool.fetch(_RUNNING, before, job_id, slot, limit)
        return [RunningSlot(**dict(row)) for row in rows]
