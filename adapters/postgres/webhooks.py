"""Webhooks of runs: which are due, and what became of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from adapters.postgres.pool import Pool, reconnecting

_GET = "SELECT url, status FROM webhooks WHERE run_key = $1"
_DUE = """
SELECT w.run_key FROM webhooks w JOIN runs r ON r.id = w.run_key
WHERE w.status = 'pending' AND w.started_at IS NULL AND r.finished_at < $1
ORDER BY w.created_at LIMIT $2
"""
_STARTED = "UPDATE webhooks SET started_at = now() WHERE run_key = $1 AND started_at IS NULL"
_TRIED = """
UPDATE webhooks SET attempts = greatest(attempts, $2), last_error = $3, status = $4,
       delivered_at = CASE WHEN $4 = 'delivered' THEN now() END
WHERE run_key = $1 AND status = 'pending'
"""


@dataclass(frozen=True, slots=True)
class Webhook:
    url: str
    status: str  # pending | delivered | failed


class WebhookStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def get(self, run_key: UUID) -> Webhook | None:
        row = await self._pool.fetchrow(_GET, run_key)
        return None if row is None else Webhook(row["url"], row["status"])

    @reconnecting
    async def due(self, before: datetime, limit: int) -> Sequence[UUID]:
        """Runs that ended before then, and whose webhook nobody has begun to deliver."""
        return [row["run_key"] for row in await self._pool.fetch(_DUE, before, limit)]

    @reconnecting
    async def started(self, run_key: UUID) -> None:
        await self._pool.execute(_STARTED, run_key)

    @reconnecting
    async def tried(self, run_key: UUID, attempt: int, error: str | None, status: str) -> None:
        """Note an attempt. Of one that is delivered or given up nothing changes any more."""
        await self._pool.execute(_TRIED, run_key, attempt, error, status)
