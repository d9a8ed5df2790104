"""Runs: reading and ending them. What happens inside a turn is in turns.py."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from adapters.postgres.endings import END_AUDIT, END_EVENT, END_QUESTIONS, END_SECRETS, end_of
from adapters.postgres.pool import reconnecting
from adapters.postgres.queue import RunQueue, begin_unadmitted
from adapters.postgres.run_rows import RUN_COLUMNS, run_of
from domain.errors import NotFound
from domain.events import Recorded, RunStatus
from domain.ids import run_key
from domain.messages import Origin
from domain.runs import Ending, Run

_GET = f"""
SELECT {RUN_COLUMNS} FROM runs r JOIN sessions s ON s.id = r.session_id
WHERE r.id = $1 AND ($2::uuid IS NULL OR r.owner_id = $2)
"""  # noqa: S608
_SEGMENT = f"""
SELECT {RUN_COLUMNS}, g.number, g.run_id AS segment_id, g.digest FROM run_segments g
JOIN runs r ON r.id = g.run_key JOIN sessions s ON s.id = r.session_id WHERE g.key = $1
"""  # noqa: S608
_SEGMENT_ID = "SELECT run_id FROM run_segments WHERE run_key = $1 AND number = $2"
_LIST = f"""
SELECT {RUN_COLUMNS} FROM runs r JOIN sessions s ON s.id = r.session_id
WHERE r.owner_id = $1
  AND ($2::text IS NULL OR r.status = replace($2, 'waiting', 'running')
       AND ($2 NOT IN ('running', 'waiting') OR r.paused = ($2 = 'waiting')))
  AND ($3::text IS NULL OR r.profile_name = $3)
  AND ($4::text IS NULL OR r.executor = $4)
  AND ($5::text IS NULL OR r.origin = $5)
  AND ($6::timestamptz IS NULL OR r.created_at >= $6)
  AND ($7::timestamptz IS NULL OR r.created_at < $7)
  AND ($8::timestamptz IS NULL OR (r.created_at, r.id) < ($8, $9))
  AND ($10::text IS NULL OR s.thread_id = $10)
ORDER BY r.created_at DESC, r.id DESC
LIMIT $11
"""  # noqa: S608
_FINISH = f"""
WITH r AS (
    UPDATE runs SET status = $2, error_code = $3, error_message = $4, limit_hit = $5,
                    finished_at = now(), last_seq = last_seq + 1, open_turn_seq = NULL,
                    paused = false
    WHERE id = $1 AND status = ANY($6::text[])
    RETURNING *
), event AS ({END_EVENT}), audited AS ({END_AUDIT}),
     asked AS ({END_QUESTIONS}), given AS ({END_SECRETS})
SELECT e.seq, e.payload, e.created_at FROM event e
"""  # noqa: S608
_ROLL_BACK = """
UPDATE messages SET hidden_from_user = true,
       metadata = metadata || jsonb_build_object('superseded_by', $2::text)
WHERE run_id = $1 AND NOT hidden_from_user
"""
_ACTIVE, _QUEUED = ["accepted", "running"], ["queued"]
_TERMINAL = """
SELECT e.seq, e.payload, e.created_at FROM run_events e
WHERE e.run_id = $1 AND e.kind = 'run_finished' ORDER BY e.seq DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Segment:
    """The stretch of a run that a client knows as `run_id`. `digest`: of the request that began
    it; None: its run's own, or nobody's."""

    run: Run
    number: int
    run_id: str
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What a list of runs may be narrowed to. `before`: (created_at, key) of the last one seen."""

    status: RunStatus | None = None
    profile: str | None = None
    executor: str | None = None
    origin: Origin | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: tuple[datetime, UUID] | None = None
    thread_id: str | None = None


class RunStore(RunQueue):
    @reconnecting
    async def get(self, owner_id: UUID, run_id: str) -> Run:
        """By its own id or that of any segment. Raises NotFound, for another owner's run too."""
        return (await self.segment(owner_id, run_id)).run

    @reconnecting
    async def segment(self, owner_id: UUID, run_id: str) -> Segment:
        """What a client calls a run. Raises NotFound, for another owner's too."""
        key = run_key(owner_id, run_id)
        if (row := await self._pool.fetchrow(_SEGMENT, key)) is None:
            return Segment(await self._get(key, owner_id), 0, run_id)
        digest = row["digest"]
        return Segment(
            run_of(row), row["number"], row["segment_id"], None if digest is None else digest.hex()
        )

    @reconnecting
    async def latest_segment(self, run: Run) -> str:
        """The id under which the run goes on."""
        if run.segment == 0:
            return run.run_id
        return await self._pool.fetchval(_SEGMENT_ID, run.key, run.segment)

    @reconnecting
    async def get_by_key(self, key: UUID) -> Run:
        """For our own processes, which act for no one. Raises NotFound."""
        return await self._get(key, None)

    async def _get(self, key: UUID, owner_id: UUID | None) -> Run:
        row = await self._pool.fetchrow(_GET, key, owner_id)
        if row is None:
            raise NotFound("There is no such run.")
        return run_of(row)

    @reconnecting
    async def list(self, owner_id: UUID, where: RunFilter, limit: int) -> list[Run]:
        """Newest first."""
        before_at, before_id = where.before or (None, None)
        rows = await self._pool.fetch(
            _LIST,
            owner_id,
            where.status,
            where.profile,
            where.executor,
            where.origin,
            where.since,
            where.until,
            before_at,
            before_id,
            where.thread_id,
            limit,
        )
        return [run_of(row) for row in rows]

    @reconnecting
    async def finish(self, key: UUID, ending: Ending) -> tuple[Recorded | None, bool]:
        """End an active run and free its session, once. (terminal event, whether it was now)."""
        how = (key, ending.status, ending.code, ending.message, ending.limit)
        row = await self._pool.fetchrow(_FINISH, *how, _ACTIVE)
        if row is None and (recorded := await self.end_queued(key, ending)):
            return recorded, True
        now = row is not None
        row = row or await self._pool.fetchrow(_TERMINAL, key)
        if row is None:
            return None, False
        return end_of(row), now

    @reconnecting
    async def end_queued(self, key: UUID, ending: Ending) -> Recorded | None:
        """End a run that was never let into its session; None if there is no such run."""
        how = (key, ending.status, ending.code, ending.message, ending.limit)
        async with self._pool.acquire() as connection, connection.transaction():
            await begin_unadmitted(connection, key)
            row = await connection.fetchrow(_FINISH, *how, _QUEUED)
        return None if row is None else end_of(row)

    @reconnecting
    async def roll_back(self, key: UUID, by_run_id: str) -> None:
        """Take what an ended run said, and what it was asked, out of the conversation. It stays
        for the audit, with the id of the run in whose favour that was."""
        await self._pool.execute(_ROLL_BACK, key, by_run_id)

    async def end_lost(self, key: UUID, code: str, message: str) -> Recorded | None:
        """Fail an active run whose workflow is gone; None if it had ended already."""
        recorded, now = await self.finish(key, Ending(RunStatus.FAILED, code, message))
        return recorded if now else None
