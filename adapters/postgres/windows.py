"""Windows of jobs: what each run of a slot reads, and how far a job has read each session."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from adapters.postgres.pool import Connection, Pool, Row, reconnecting
from domain.cutting import MAX_USER_MESSAGES, Cut, Said, cut
from domain.errors import NotFound
from domain.ids import run_key
from domain.jobs import JobConfig, Part, slot_run_id

# Per session the messages after the watermark and before an active run's, no more than a window can
# take and one to see where the last ends. A session's messages keep their order, whatever the
# clock said while they were written.
UNREAD = """
WITH open AS MATERIALIZED (
    SELECT s.id, greatest(coalesce(w.seq, 0), s.forked_through) AS read,
           coalesce((SELECT min(r.first_message_seq) FROM runs r
                     WHERE r.session_id = s.id AND r.status IN ('accepted', 'running')),
                    s.last_seq + 1) AS until
    FROM sessions s LEFT JOIN job_watermarks w ON w.job_id = $1 AND w.session_id = s.id
    WHERE s.owner_id = $2 AND s.type = 'chat'
      AND s.last_seq > greatest(coalesce(w.seq, 0), s.forked_through)
)
SELECT o.id AS session_id, m.seq, coalesce(m.following, o.until) - 1 AS through, m.at,
       m.bytes / 3 AS tokens
FROM open o, LATERAL (
    SELECT f.seq, f.bytes, lead(f.seq) OVER (ORDER BY f.seq) AS following,
           max(f.created_at) OVER (ORDER BY f.seq) AS at
    FROM (SELECT seq, created_at, octet_length(content) AS bytes FROM messages
          WHERE session_id = o.id AND role = 'user' AND NOT hidden_from_user
            AND seq > o.read AND seq < o.until
          ORDER BY seq LIMIT $3 + 1) AS f
) AS m
ORDER BY m.at, o.id, m.seq LIMIT $3
"""
_SLOT = """
SELECT owner_id, snapshot, reopened FROM job_slots WHERE job_id = $1 AND slot = $2
"""
_WINDOW = """
SELECT run_key, parts, user_messages, status, error_code, error_message FROM job_windows
WHERE job_id = $1 AND slot = $2 AND attempt = $3 AND number = $4
"""
_READ_BEFORE = """
SELECT parts, user_messages FROM job_windows
WHERE job_id = $1 AND slot = $2 AND attempt < $3 AND status = 'done'
ORDER BY attempt, number
"""
_ADD = """
INSERT INTO job_windows (job_id, slot, attempt, number, owner_id, run_key, parts, user_messages)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING
"""
_CLOSE = """
UPDATE job_windows SET status = $5, error_code = $6, error_message = $7
WHERE job_id = $1 AND slot = $2 AND attempt = $3 AND number = $4 AND status = 'open'
RETURNING owner_id, parts
"""
_MOVE_WATERMARK = """
INSERT INTO job_watermarks AS w (job_id, session_id, owner_id, seq)
SELECT $1, p.session_id, $2, p.seq
FROM unnest($3::uuid[], $4::bigint[]) AS p(session_id, seq)
ON CONFLICT (job_id, session_id) DO UPDATE
SET seq = greatest(w.seq, excluded.seq), updated_at = now()
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Which window: of which attempt of which slot, counted from 1."""

    job_id: UUID
    slot: str
    attempt: int
    number: int

    @property
    def run_id(self) -> str:
        return slot_run_id(self.job_id, self.slot, self.attempt, self.number)


@dataclass(frozen=True, slots=True)
class Assigned:
    """What a slot was claimed with: whose it is, and the job as it was then."""

    owner_id: UUID
    config: JobConfig
    profile: str | Mapping[str, Any] | None  # None: it could not be read
    reopened: bool


@dataclass(frozen=True, slots=True)
class Window:
    """What one run reads; nothing for a run that is given its prompt only."""

    run_key: UUID
    parts: tuple[Part, ...]
    user_messages: int
    status: str  # open | done | failed
    error: tuple[str, str] | None  # (code, words)


class WindowStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def assigned(self, job_id: UUID, slot: str) -> Assigned:
        """Raises NotFound."""
        row = await self._pool.fetchrow(_SLOT, job_id, slot)
        if row is None:
            raise NotFound(f"Slot {slot} of job {job_id} is not claimed.")
        snapshot = json.loads(row["snapshot"])
        config = JobConfig(snapshot["config"]["prompt"], tuple(snapshot["config"]["tools"]))
        return Assigned(row["owner_id"], config, snapshot["profile"], row["reopened"])

    @reconnecting
    async def open(self, place: Place, assigned: Assigned, *, reads: bool) -> Window | None:
        """The window at this place; cut and written down the first time. None: nothing is left.

        A slot that was asked for again first reads what it read before. `reads`: False for a run
        that is given its prompt only, of which a slot has one.
        """
        if found := await self.get(place):
            return found
        async with self._pool.acquire() as connection, connection.transaction():
            piece = await _next(connection, place, assigned, reads=reads)
            if piece is None:
                return None
            await connection.execute(
                _ADD,
                place.job_id,
                place.slot,
                place.attempt,
                place.number,
                assigned.owner_id,
                run_key(assigned.owner_id, place.run_id),
                _dump(piece.parts),
                piece.user_messages,
            )
        return await self.get(place)  # a twin's, if it was faster

    @reconnecting
    async def get(self, place: Place) -> Window | None:
        row = await self._pool.fetchrow(
            _WINDOW, place.job_id, place.slot, place.attempt, place.number
        )
        if row is None:
            return None
        error = None if row["error_code"] is None else (row["error_code"], row["error_message"])
        return Window(
            row["run_key"], _load(row["parts"]), row["user_messages"], row["status"], error
        )

    @reconnecting
    async def close(self, place: Place, error: tuple[str, str] | None = None) -> None:
        """Record how its run ended, once. What was read moves the watermarks, in the same
        transaction, and never back. `error`: (code, words) of a run that did not complete."""
        code, message = error or (None, None)
        async with self._pool.acquire() as connection, connection.transaction():
            row = await connection.fetchrow(
                _CLOSE,
                *(place.job_id, place.slot, place.attempt, place.number),
                "done" if error is None else "failed",
                code,
                message,
            )
            if row is None or error is not None:
                return
            parts = _load(row["parts"])
            await connection.execute(
                _MOVE_WATERMARK,
                place.job_id,
                row["owner_id"],
                [part.session_key for part in parts],
                [part.last_seq for part in parts],
            )


async def _next(
    connection: Connection, place: Place, assigned: Assigned, *, reads: bool
) -> Cut | None:
    if not reads:
        return Cut((), 0) if place.number == 1 else None
    if assigned.reopened:
        before = await connection.fetch(_READ_BEFORE, place.job_id, place.slot, place.attempt)
        again = list(dict.fromkeys(Cut(_load(r["parts"]), r["user_messages"]) for r in before))
        if place.number <= len(again):
            return again[place.number - 1]
    rows = await connection.fetch(UNREAD, place.job_id, assigned.owner_id, MAX_USER_MESSAGES)
    piece = cut([_said(row) for row in rows])
    return piece if piece.parts else None


def _said(row: Row) -> Said:
    return Said(row["session_id"], row["seq"], row["through"], row["at"], row["tokens"])


def _dump(parts: tuple[Part, ...]) -> str:
    return json.dumps(
        [
            {"session": str(p.session_key), "first_seq": p.first_seq, "last_seq": p.last_seq}
            for p in parts
        ]
    )


def _load(parts: str) -> tuple[Part, ...]:
    return tuple(Part(UUID(p["session"]), p["first_seq"], p["last_seq"]) for p in json.loads(parts))
