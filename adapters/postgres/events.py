"""The durable events of a run, read back whole. Most are written with what they report."""

from collections.abc import Sequence
from uuid import UUID

from adapters import event_codec
from adapters.postgres.pool import Pool, Queries, reconnecting
from domain.events import DurableEvent, Recorded, position

_LOAD = """
SELECT e.seq, e.payload, e.created_at, m.content, m.tool_calls
FROM run_events e
JOIN runs r ON r.id = e.run_id
LEFT JOIN messages m ON e.kind IN ('turn_completed', 'tool_finished')
     AND m.session_id = r.session_id AND m.id = e.payload ->> 'message_id'
WHERE e.run_id = $1 AND e.seq > $2
ORDER BY e.seq
"""
_LAST_SEQS = "SELECT id, last_seq FROM runs WHERE id = ANY($1::uuid[])"

# Where a segment ends: at the last pause before the next one, or before what there is so far.
_PAUSED_AT = """
SELECT max(seq) FROM run_events WHERE run_id = $1 AND kind = 'run_paused'
AND seq > COALESCE((SELECT seq FROM run_events WHERE run_id = $1 AND kind = 'run_resumed'
                    AND (payload ->> 'number')::int = $2), 0)
AND seq < COALESCE((SELECT seq FROM run_events WHERE run_id = $1 AND kind = 'run_resumed'
                    AND (payload ->> 'number')::int = $2 + 1), 9223372036854775807)
"""
_APPEND = """
WITH r AS (
    UPDATE runs SET last_seq = last_seq + 1 WHERE id = $1 AND status = 'running'
    RETURNING id, last_seq
)
INSERT INTO run_events (run_id, seq, kind, payload)
SELECT id, last_seq, $2, $3::jsonb FROM r RETURNING seq, created_at
"""


async def append(queries: Queries, run_key: UUID, event: DurableEvent) -> Recorded | None:
    """Add an event to a run that is at work; None if it is not."""
    payload = event_codec.dump_row(event)
    row = await queries.fetchrow(_APPEND, run_key, event.kind, payload)
    if row is None:
        return None
    return Recorded(position(row["seq"]), int(row["created_at"].timestamp() * 1000), event)


class EventStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def load(self, run_key: UUID, after_seq: int = 0) -> list[Recorded]:
        """Every durable event after `after_seq`, in order, text and calls filled in."""
        rows = await self._pool.fetch(_LOAD, run_key, after_seq)
        return [
            Recorded(
                position(row["seq"]),
                int(row["created_at"].timestamp() * 1000),
                event_codec.load_row(row["payload"], row["content"], row["tool_calls"]),
            )
            for row in rows
        ]

    @reconnecting
    async def last_seqs(self, run_keys: Sequence[UUID]) -> dict[UUID, int]:
        """The last durable seq of each run that exists."""
        rows = await self._pool.fetch(_LAST_SEQS, list(run_keys))
        return {row["id"]: row["last_seq"] for row in rows}

    @reconnecting
    async def paused_at(self, run_key: UUID, segment: int) -> int | None:
        """The seq of the pause that ended this segment; None if none did."""
        return await self._pool.fetchval(_PAUSED_AT, run_key, segment)
