"""Runs: accepting, reading and ending them. What happens inside a turn is in turns.py."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg
from pydantic import TypeAdapter

from adapters import event_codec
from adapters.postgres.endings import END_AUDIT, END_EVENT, END_QUESTIONS, END_SECRETS, end_of
from adapters.postgres.pool import Connection, Pool, Row, constraint, reconnecting
from domain.errors import InvalidInput, NotFound, RunConflict, SessionBusy
from domain.events import Recorded, RunStarted, RunStatus, position
from domain.ids import run_key, session_key
from domain.messages import Origin, Usage
from domain.runs import Ending, NewRun, Run, RunRequest

_request: TypeAdapter[RunRequest] = TypeAdapter(RunRequest)

RUN_COLUMNS = """
r.id, r.owner_id, r.session_id, s.thread_id, r.run_id, r.origin, r.status, r.request,
r.profile_name, r.executor, r.input_tokens, r.output_tokens, r.cached_tokens, r.cost_micro_usd,
r.turns, r.last_seq, r.paused, r.segment, r.error_code, r.error_message, r.limit_hit, r.created_at,
r.started_at, r.finished_at
"""

_LOCK_SESSION = "UPDATE sessions SET updated_at = now() WHERE id = $1 RETURNING last_seq"
# No conflict target: with one of the two unique indexes named, twins deadlock on the other.
_NEW_SESSION = """
INSERT INTO sessions (id, owner_id, thread_id, type) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING RETURNING last_seq
"""
_KNOWN_RUN = f"""
SELECT r.request_digest, {RUN_COLUMNS}
FROM runs r JOIN sessions s ON s.id = r.session_id WHERE r.id = $1
"""  # noqa: S608 (a constant)
# The active run is looked for, not run into: the unique index would wait for whoever is just
# changing that run, while they wait for the session that is locked here. It still decides.
_STANDING = """
SELECT ARRAY(SELECT id FROM messages WHERE session_id = $1 AND id = ANY($2::text[])) AS seen,
       (SELECT run_id FROM runs WHERE session_id = $1 AND status IN ('accepted', 'running'))
       AS active
"""
_ACCEPT = f"""
WITH r AS (
    INSERT INTO runs (id, owner_id, session_id, run_id, origin, request, request_digest,
                      first_message_seq, last_seq)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1)
    RETURNING *
), message AS (
    INSERT INTO messages (session_id, seq, id, owner_id, run_id, role, content, hidden_from_user,
                          metadata)
    SELECT r.session_id, $8 + m.place - 1, m.id, r.owner_id, r.id, 'user', m.content, m.hidden,
           jsonb_build_object('origin', r.origin, 'run_id', r.run_id)
    FROM r, unnest($9::text[], $10::text[], $11::boolean[])
         WITH ORDINALITY AS m(id, content, hidden, place)
), s AS (
    UPDATE sessions SET last_seq = $12 WHERE id = $3 RETURNING thread_id
), event AS (
    INSERT INTO run_events (run_id, seq, kind, payload)
    SELECT r.id, 1, 'run_started', $13::jsonb FROM r RETURNING created_at
)
SELECT {RUN_COLUMNS}, event.created_at AS event_at FROM r, s, event
"""  # noqa: S608
_BUMP_SESSION = "UPDATE sessions SET last_seq = $2 WHERE id = $1"
_ACTIVE = """
SELECT run_id FROM runs WHERE session_id = $1 AND status IN ('accepted', 'running')
"""
_GET = f"""
SELECT {RUN_COLUMNS} FROM runs r JOIN sessions s ON s.id = r.session_id
WHERE r.id = $1 AND ($2::uuid IS NULL OR r.owner_id = $2)
"""  # noqa: S608
_SEGMENT = f"""
SELECT {RUN_COLUMNS}, g.number, g.run_id AS segment_id, g.digest FROM run_segments g
JOIN runs r ON r.id = g.run_key JOIN sessions s ON s.id = r.session_id WHERE g.key = $1
"""  # noqa: S608
_TAKEN = "SELECT true FROM run_segments WHERE key = $1"
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
_LOCK_RUN = "SELECT session_id, status, first_message_seq FROM runs WHERE id = $1 FOR UPDATE"
_FINISH = f"""
WITH r AS (
    UPDATE runs SET status = $2, error_code = $3, error_message = $4, limit_hit = $5,
                    finished_at = now(), last_seq = last_seq + 1, open_turn_seq = NULL,
                    paused = false
    WHERE id = $1 AND status IN ('accepted', 'running')
    RETURNING *
), event AS ({END_EVENT}), audited AS ({END_AUDIT}),
     asked AS ({END_QUESTIONS}), given AS ({END_SECRETS})
SELECT e.seq, e.payload, e.created_at FROM event e
"""  # noqa: S608
_TERMINAL = """
SELECT e.seq, e.payload, e.created_at FROM run_events e
WHERE e.run_id = $1 AND e.kind = 'run_finished' ORDER BY e.seq DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The run that answers a request. `created` is False when the request was seen before."""

    run: Run
    created: bool
    started: Recorded | None  # the RunStarted just written, to be published


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


class RunStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def accept(self, new: NewRun) -> Accepted:
        """Write run, new user messages and RunStarted, or find the run that has this id already.

        Raises SessionBusy (the session has another active run), RunConflict (the id is taken by
        another request) and InvalidInput (no message in it is new).
        """
        key, session = run_key(new.owner_id, new.run_id), session_key(new.owner_id, new.thread_id)
        digest = _digest(new)
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                last = await _open_session(connection, new, session)
                if known := await connection.fetchrow(_KNOWN_RUN, key):
                    if known["request_digest"] != digest:
                        raise RunConflict(f"Run {new.run_id} was started with another request.")
                    return Accepted(run_of(known), created=False, started=None)
                if await connection.fetchval(_TAKEN, key):
                    raise RunConflict(f"Run {new.run_id} was started with another request.")
                return await self._insert(connection, new, key, session, last, digest)
        except asyncpg.UniqueViolationError as error:
            if constraint(error) == "runs_pkey":  # a twin in another session was faster
                raise RunConflict(f"Run {new.run_id} was started with another request.") from error
            if constraint(error) != "runs_one_active_per_session":
                raise
            active = await self._pool.fetchval(_ACTIVE, session)
            raise SessionBusy(active or "") from error

    async def _insert(
        self,
        connection: Connection,
        new: NewRun,
        key: UUID,
        session: UUID,
        last: int,
        digest: bytes,
    ) -> Accepted:
        ids = [message.id for message in new.messages]
        standing = await connection.fetchrow(_STANDING, session, ids)
        assert standing is not None
        fresh = [message for message in new.messages if message.id not in standing["seen"]]
        if standing["active"] is not None:
            raise SessionBusy(standing["active"])
        if not fresh:
            raise InvalidInput("messages", "The last message must be a new message of the user.")
        through = last + len(fresh)
        started = RunStarted(new.thread_id, new.run_id, through)
        row = await connection.fetchrow(
            _ACCEPT,
            key,
            new.owner_id,
            session,
            new.run_id,
            new.origin,
            _request.dump_json(new.request).decode(),
            digest,
            last + 1,
            [m.id for m in fresh],
            [m.content for m in fresh],
            [m.hidden_from_user for m in fresh],
            through,
            event_codec.dump_row(started),
        )
        assert row is not None
        return Accepted(run_of(row), True, Recorded(position(1), _ms(row["event_at"]), started))

    @reconnecting
    async def withdraw(self, key: UUID) -> bool:
        """Undo an acceptance that no workflow has taken up; True if there was one to undo."""
        async with self._pool.acquire() as connection, connection.transaction():
            row = await connection.fetchrow(_LOCK_RUN, key)
            if row is None or row["status"] != RunStatus.ACCEPTED:
                return False
            await connection.execute("DELETE FROM run_events WHERE run_id = $1", key)
            await connection.execute("DELETE FROM messages WHERE run_id = $1", key)
            await connection.execute("DELETE FROM runs WHERE id = $1", key)
            await connection.execute(_BUMP_SESSION, row["session_id"], row["first_message_seq"] - 1)
            return True

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
        row = await self._pool.fetchrow(
            _FINISH, key, ending.status, ending.code, ending.message, ending.limit
        )
        now = row is not None
        row = row or await self._pool.fetchrow(_TERMINAL, key)
        if row is None:
            return None, False
        return end_of(row), now

    async def end_lost(self, key: UUID, code: str, message: str) -> Recorded | None:
        """Fail an active run whose workflow is gone; None if it had ended already."""
        recorded, now = await self.finish(key, Ending(RunStatus.FAILED, code, message))
        return recorded if now else None


async def _open_session(connection: Connection, new: NewRun, session: UUID) -> int:
    """The session's last message seq; it is made if need be, and ours until the transaction
    ends."""
    last = await connection.fetchval(_LOCK_SESSION, session)
    if last is None:
        fields = (session, new.owner_id, new.thread_id, new.session_type)
        last = await connection.fetchval(_NEW_SESSION, *fields)
    if last is None:  # a twin was faster, and has committed
        last = await connection.fetchval(_LOCK_SESSION, session)
    return last


def _digest(new: NewRun) -> bytes:
    """What makes two requests with one run id the same request."""
    # Fields that came later count where they are used, so that older digests stay what they are.
    later = {
        name for name in ("inline", "window", "job_id", "slot") if not getattr(new.request, name)
    }
    body = [
        new.thread_id,
        _request.dump_python(new.request, mode="json", exclude={"protocol", *later}),
        [[m.id, m.content] for m in new.messages],
    ]
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def request_of(data: str) -> RunRequest:
    return _request.validate_json(data)


def run_of(row: Row) -> Run:
    return Run(
        key=row["id"],
        owner_id=row["owner_id"],
        session_key=row["session_id"],
        thread_id=row["thread_id"],
        run_id=row["run_id"],
        origin=Origin(row["origin"]),
        status=RunStatus.WAITING if row["paused"] else RunStatus(row["status"]),
        segment=row["segment"],
        request=request_of(row["request"]),
        profile=row["profile_name"],
        executor=row["executor"],
        usage=Usage(row["input_tokens"], row["output_tokens"], row["cached_tokens"]),
        cost_micro_usd=row["cost_micro_usd"],
        turns=row["turns"],
        last_seq=row["last_seq"],
        error_code=row["error_code"],
        error_message=row["error_message"],
        limit=row["limit_hit"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
    )
