"""Which runs are active as far as the database knows, for comparison with the engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from adapters.postgres.pool import Pool, reconnecting
from domain.events import RunStatus

_STILL_ACTIVE = """
SELECT id FROM runs WHERE id = ANY($1::uuid[]) AND status IN ('accepted', 'running')
"""
# What was accepted and not begun comes first: nothing else would ever move it.
_QUIET = """
WITH picked AS (
    SELECT id, status FROM runs
    WHERE status IN ('accepted', 'running') AND created_at < $1
      AND (checked_at IS NULL OR checked_at < $1 - CASE status
           WHEN 'accepted' THEN interval '5 seconds' ELSE interval '1 minute' END)
    ORDER BY (status = 'accepted') DESC, checked_at NULLS FIRST, created_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED
)
UPDATE runs SET checked_at = now() FROM picked WHERE runs.id = picked.id
RETURNING runs.id, picked.status
"""


@dataclass(frozen=True, slots=True)
class ActiveRun:
    key: UUID
    status: RunStatus


class ReconcileStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def still_active(self, keys: Sequence[UUID]) -> list[UUID]:
        """Those of these runs that have no end yet."""
        rows = await self._pool.fetch(_STILL_ACTIVE, list(keys))
        return [row["id"] for row in rows]

    @reconnecting
    async def quiet(self, before: datetime, limit: int) -> list[ActiveRun]:
        """Active runs created before then that are due to be asked about, at most `limit`."""
        rows = await self._pool.fetch(_QUIET, before, limit)
        return [ActiveRun(row["id"], RunStatus(row["status"])) for row in rows]
