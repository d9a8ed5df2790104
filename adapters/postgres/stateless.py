"""Sessions of stateless runs: gone a while after their run, with all that was said in them."""

from datetime import datetime

from adapters.postgres.pool import Pool, reconnecting

# What a fact rests on or was written by is kept for as long as the fact is.
_OVER = """
SELECT s.id FROM sessions s WHERE s.type = 'stateless' AND s.updated_at < $1
  AND NOT EXISTS (SELECT FROM runs r WHERE r.session_id = s.id
                  AND (r.finished_at IS NULL OR r.finished_at >= $1
                       OR EXISTS (SELECT FROM facts f WHERE f.source_run_id = r.id)))
  AND NOT EXISTS (SELECT FROM fact_evidence e WHERE e.session_id = s.id)
ORDER BY s.updated_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""
_RUNS = "SELECT id FROM runs WHERE session_id = ANY ($1::uuid[])"
_FORGET_RUNS = (
    "UPDATE fact_candidates SET source_run_id = NULL WHERE source_run_id = ANY ($1::uuid[])",
    "DELETE FROM model_calls WHERE run_id = ANY ($1::uuid[])",
    "DELETE FROM run_events WHERE run_id = ANY ($1::uuid[])",
    "DELETE FROM messages WHERE run_id = ANY ($1::uuid[])",
    "DELETE FROM runs WHERE id = ANY ($1::uuid[])",
)
_FORGET_SESSIONS = "DELETE FROM sessions WHERE id = ANY ($1::uuid[])"


class StatelessStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def forget(self, before: datetime, limit: int) -> int:
        """Delete sessions whose run ended before then, at most `limit`; how many those were."""
        async with self._pool.acquire() as connection, connection.transaction():
            sessions = [row["id"] for row in await connection.fetch(_OVER, before, limit)]
            if sessions:
                runs = [row["id"] for row in await connection.fetch(_RUNS, sessions)]
                for statement in _FORGET_RUNS:
                    await connection.execute(statement, runs)
                await connection.execute(_FORGET_SESSIONS, sessions)
        return len(sessions)
