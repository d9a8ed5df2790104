"""Notices that a run gives at most once."""

from uuid import UUID

from adapters import event_codec
from adapters.postgres.pool import Pool, reconnecting
from domain.events import Notice, Recorded, position

# Between turns only: the text of an open turn has its place before any later event.
_APPEND_ONCE = """
WITH r AS (
    UPDATE runs SET last_seq = last_seq + 1
    WHERE id = $1 AND status = 'running' AND open_turn_seq IS NULL
      AND NOT EXISTS (SELECT 1 FROM run_events e WHERE e.run_id = $1 AND e.kind = 'notice'
                      AND e.payload ->> 'name' = $2)
    RETURNING id, last_seq
)
INSERT INTO run_events (run_id, seq, kind, payload)
SELECT id, last_seq, 'notice', $3::jsonb FROM r RETURNING seq, created_at
"""


class NoticeStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def once(self, run_key: UUID, notice: Notice) -> Recorded | None:
        """Add a notice to the run's events; None if it has one of this name, is over, or speaks."""
        row = await self._pool.fetchrow(
            _APPEND_ONCE, run_key, notice.name, event_codec.dump_row(notice)
        )
        if row is None:
            return None
        return Recorded(position(row["seq"]), int(row["created_at"].timestamp() * 1000), notice)
