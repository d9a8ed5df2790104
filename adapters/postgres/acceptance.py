"""Accepting runs: row, messages and first event in one transaction."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from adapters import event_codec
from adapters.postgres.pool import Connection, Pool, Row, constraint, reconnecting
from adapters.postgres.run_rows import RUN_COLUMNS, dump_request, request_members, run_of
from domain.errors import InvalidInput, RunConflict, SessionBusy
from domain.events import Recorded, RunStarted, RunStatus, position
from domain.ids import run_key, session_key
from domain.profiles import SessionType
from domain.runs import NewRun, Run

LOCK_SESSION = """
UPDATE sessions SET updated_at = now() WHERE id = $1 RETURNING last_seq, type
"""
# No conflict target: with one of the two unique indexes named, twins deadlock on the other.
_NEW_SESSION = """
INSERT INTO sessions (id, owner_id, thread_id, type) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING RETURNING last_seq
"""
_BY_KEY = f"""
SELECT r.request_digest, {RUN_COLUMNS}
FROM runs r JOIN sessions s ON s.id = r.session_id
WHERE r.owner_id = $1 AND r.idempotency_key = $2
"""  # noqa: S608 (a constant)
_KNOWN_RUN = f"""
SELECT r.request_digest, {RUN_COLUMNS}
FROM runs r JOIN sessions s ON s.id = r.session_id WHERE r.id = $1
"""  # noqa: S608 (a constant)
# The active run is looked for, not run into: the unique index would wait for whoever is just
# changing that run, while they wait for the session that is locked here. It still decides.
STANDING = """
SELECT ARRAY(SELECT id FROM messages WHERE session_id = $1 AND id = ANY($2::text[])) AS seen,
       (SELECT run_id FROM runs WHERE session_id = $1 AND (status IN ('accepted', 'running')
            OR status = 'queued' AND (not_before IS NULL OR not_before <= now()))
        ORDER BY status = 'queued', created_at, id LIMIT 1) AS active,
       (SELECT type FROM sessions WHERE id = $1) AS type
"""
_ACCEPT = f"""
WITH r AS (
    INSERT INTO runs (id, owner_id, session_id, run_id, origin, request, request_digest,
                      first_message_seq, last_seq, idempotency_key)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $14)
    RETURNING *
), message AS (
    INSERT INTO messages (session_id, seq, id, owner_id, run_id, role, content, hidden_from_user,
                          metadata)
    SELECT r.session_id, $8 + m.place - 1, m.id, r.owner_id, r.id, m.role, m.content, m.hidden,
           jsonb_build_object('origin', r.origin, 'run_id', r.run_id)
           || CASE WHEN m.brought THEN '{{"brought": true}}'::jsonb ELSE '{{}}' END
    FROM r, unnest($9::text[], $10::text[], $11::boolean[], $15::text[], $16::boolean[])
         WITH ORDINALITY AS m(id, content, hidden, role, brought, place)
), s AS (
    UPDATE sessions SET last_seq = $12 WHERE id = $3 RETURNING thread_id
), event AS (
    INSERT INTO run_events (run_id, seq, kind, payload)
    SELECT r.id, 1, 'run_started', $13::jsonb FROM r RETURNING created_at
), hook AS (
    INSERT INTO webhooks (run_key, owner_id, url) SELECT r.id, r.owner_id, $17 FROM r
    WHERE $17::text IS NOT NULL
)
SELECT {RUN_COLUMNS}, event.created_at AS event_at FROM r, s, event
"""  # noqa: S608
_BUMP_SESSION = "UPDATE sessions SET last_seq = $2 WHERE id = $1"
_ACTIVE = """
SELECT run_id FROM runs WHERE session_id = $1 AND status IN ('accepted', 'running')
"""
_TAKEN = "SELECT true FROM run_segments WHERE key = $1"
_LOCK_RUN = "SELECT session_id, status, first_message_seq FROM runs WHERE id = $1 FOR UPDATE"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The run that answers a request. `created` is False when the request was seen before."""

    run: Run
    created: bool
    started: Recorded | None  # the RunStarted just written, to be published


class RunAcceptance:
    """How runs come in. Every method may run twice."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def accept(self, new: NewRun) -> Accepted:
        """Write run, new user messages and RunStarted, or find the run that has this id already.

        Raises SessionBusy (the session has another active run), RunConflict (the id is taken by
        another request) and InvalidInput (no message in it is new).
        """
        key, session = run_key(new.owner_id, new.run_id), session_key(new.owner_id, new.thread_id)
        digest = digest_of(new)
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                last = await open_session(connection, new, session)
                if known := await known_run(connection, new, key, digest):
                    return Accepted(known, created=False, started=None)
                return await self._insert(connection, new, key, session, last, digest)
        except asyncpg.UniqueViolationError as error:
            if constraint(error) == "runs_idempotency_unique":  # a twin was faster
                return Accepted(await self.by_key(new, digest), created=False, started=None)
            if constraint(error) == "runs_pkey":  # a twin in another session was faster
                raise RunConflict(f"Run {new.run_id} was started with another request.") from error
            if constraint(error) != "runs_one_active_per_session":
                raise
            active = await self._pool.fetchval(_ACTIVE, session)
            raise SessionBusy(active or "") from error

    async def by_key(self, new: NewRun, digest: bytes) -> Run:
        row = await self._pool.fetchrow(_BY_KEY, new.owner_id, new.idempotency_key)
        assert row is not None
        return _same_request(row, new, digest)

    async def _insert(
        self,
        connection: Connection,
        new: NewRun,
        key: UUID,
        session: UUID,
        last: int,
        digest: bytes,
    ) -> Accepted:
        brought = {message.id for message in new.history}
        ids = [message.id for message in (*new.history, *new.messages)]
        standing = await connection.fetchrow(STANDING, session, ids)
        assert standing is not None
        once = new.session_type is SessionType.STATELESS
        if standing["type"] != new.session_type or (once and last):
            raise InvalidInput("threadId", "A stateless run has a thread of its own.")
        given = (*new.history, *new.messages)
        fresh = [message for message in given if message.id not in standing["seen"]]
        if standing["active"] is not None:
            raise SessionBusy(standing["active"])
        if not fresh and not new.again:
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
            dump_request(new.request),
            digest,
            last + 1,
            [m.id for m in fresh],
            [m.content for m in fresh],
            [m.hidden_from_user for m in fresh],
            through,
            event_codec.dump_row(started),
            new.idempotency_key,
            [m.role for m in fresh],
            [m.id in brought for m in fresh],
            new.request.webhook,
        )
        assert row is not None
        return Accepted(run_of(row), True, Recorded(position(1), ms(row["event_at"]), started))

    @reconnecting
    async def withdraw(self, key: UUID) -> bool:
        """Undo an acceptance that no workflow has taken up; True if there was one to undo."""
        async with self._pool.acquire() as connection, connection.transaction():
            row = await connection.fetchrow(_LOCK_RUN, key)
            if row is None or row["status"] not in (RunStatus.ACCEPTED, RunStatus.QUEUED):
                return False
            await connection.execute("DELETE FROM run_events WHERE run_id = $1", key)
            await connection.execute("DELETE FROM messages WHERE run_id = $1", key)
            await connection.execute("DELETE FROM runs WHERE id = $1", key)
            if row["status"] == RunStatus.QUEUED:
                return True  # nothing of it was in the session
            await connection.execute(_BUMP_SESSION, row["session_id"], row["first_message_seq"] - 1)
            return True


async def known_run(connection: Connection, new: NewRun, key: UUID, digest: bytes) -> Run | None:
    """The run that a request was accepted as before. Raises RunConflict if it was another one."""
    key_given = (new.owner_id, new.idempotency_key)
    if new.idempotency_key and (row := await connection.fetchrow(_BY_KEY, *key_given)):
        return _same_request(row, new, digest)
    if row := await connection.fetchrow(_KNOWN_RUN, key):
        return _same_request(row, new, digest)
    if await connection.fetchval(_TAKEN, key):
        raise RunConflict(f"Run {new.run_id} was started with another request.")
    return None


def _same_request(row: Row, new: NewRun, digest: bytes) -> Run:
    if row["request_digest"] != digest:
        raise RunConflict(f"Run {new.run_id} was started with another request.")
    return run_of(row)


async def open_session(connection: Connection, new: NewRun, session: UUID) -> int:
    """The session's last message seq; it is made if need be, and ours until the transaction
    ends."""
    last = await connection.fetchval(LOCK_SESSION, session)
    if last is None:
        fields = (session, new.owner_id, new.thread_id, new.session_type)
        last = await connection.fetchval(_NEW_SESSION, *fields)
    if last is None:  # a twin was faster, and has committed
        last = await connection.fetchval(LOCK_SESSION, session)
    return last


def digest_of(new: NewRun) -> bytes:
    """What makes two requests with one run id the same request."""
    # Fields that came later count where they are used, so that older digests stay what they are.
    later = {
        name
        for name in ("inline", "window", "webhook", "job_id", "slot")
        if not getattr(new.request, name)
    }
    body = [
        new.thread_id,
        request_members(new.request, {"protocol", *later}),
        [[m.id, m.content] for m in new.messages],
    ]
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()


def ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
