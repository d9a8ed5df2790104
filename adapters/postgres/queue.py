"""The queue of a session: runs that wait for their turn or time; stops that came before them."""

import json
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from adapters import event_codec
from adapters.postgres.acceptance import (
    LOCK_SESSION,
    STANDING,
    Accepted,
    RunAcceptance,
    digest_of,
    known_run,
    ms,
    open_session,
)
from adapters.postgres.endings import next_in_line
from adapters.postgres.pool import Connection, constraint, reconnecting
from adapters.postgres.run_rows import RUN_COLUMNS, dump_request, run_of
from domain.errors import RunConflict
from domain.events import Recorded, RunStarted, RunStatus, position
from domain.ids import run_key, session_key
from domain.runs import NewRun

# What a queued run brings is kept with it: the run at work must not see it. Its place in the queue
# is that of its hold on the session, not of its transaction's beginning.
_QUEUE = f"""
WITH r AS (
    INSERT INTO runs (id, owner_id, session_id, run_id, origin, request, request_digest, status,
                      first_message_seq, pending, not_before, idempotency_key, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, 'queued', 0, $8::jsonb, $9, $10, clock_timestamp())
    RETURNING *
), hook AS (
    INSERT INTO webhooks (run_key, owner_id, url) SELECT r.id, r.owner_id, $11 FROM r
    WHERE $11::text IS NOT NULL
)
SELECT {RUN_COLUMNS} FROM r JOIN sessions s ON s.id = r.session_id
"""  # noqa: S608
_TURN = """
SELECT r.session_id, r.run_id, r.status, r.pending, s.thread_id,
       r.not_before IS NULL OR r.not_before <= now() AS due,
       EXISTS (SELECT FROM runs o WHERE o.session_id = r.session_id AND o.id <> r.id AND (
           o.status IN ('accepted', 'running') OR o.status = 'queued'
           AND (o.not_before IS NULL OR o.not_before <= now())
           AND (o.created_at, o.id) < (r.created_at, r.id))) AS behind
FROM runs r JOIN sessions s ON s.id = r.session_id WHERE r.id = $1
"""
_ADMIT = """
WITH r AS (
    UPDATE runs SET status = 'accepted', first_message_seq = $2, last_seq = 1, pending = NULL
    WHERE id = $1 AND status = 'queued' RETURNING *
), message AS (
    INSERT INTO messages (session_id, seq, id, owner_id, run_id, role, content, metadata)
    SELECT r.session_id, $2 + m.place - 1, m.id, r.owner_id, r.id, 'user', m.content,
           jsonb_build_object('origin', r.origin, 'run_id', r.run_id)
    FROM r, unnest($3::text[], $4::text[]) WITH ORDINALITY AS m(id, content, place)
), s AS (
    UPDATE sessions SET last_seq = $5 FROM r WHERE sessions.id = r.session_id
)
INSERT INTO run_events (run_id, seq, kind, payload)
SELECT r.id, 1, 'run_started', $6::jsonb FROM r RETURNING created_at
"""
_NEXT = next_in_line("$1")
_STOP_EARLY = """
INSERT INTO early_stops (run_key, owner_id, reason) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
"""
_STOPPED_EARLY = """
WITH old AS (DELETE FROM early_stops WHERE created_at < now() - interval '1 minute')
DELETE FROM early_stops WHERE run_key = $1 AND created_at >= now() - interval '1 minute'
RETURNING reason
"""


_BEGIN_UNADMITTED = """
WITH r AS (
    UPDATE runs SET last_seq = 1 WHERE id = $1 AND status = 'queued' AND last_seq = 0
    RETURNING id, run_id, session_id
)
INSERT INTO run_events (run_id, seq, kind, payload)
SELECT r.id, 1, 'run_started', jsonb_build_object('kind', 'run_started', 'thread_id', s.thread_id,
       'run_id', r.run_id, 'messages_through', s.last_seq)
FROM r JOIN sessions s ON s.id = r.session_id
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether a queued run may go: `started` is its RunStarted if it was let in now; `over`: it
    has ended meanwhile."""

    admitted: bool
    over: bool = False
    started: Recorded | None = None


class RunQueue(RunAcceptance):
    """Every method may run twice."""

    @reconnecting
    async def queue(self, new: NewRun) -> Accepted:
        """Accept a run that has to wait: for its turn in its session, and for its time.

        Raises RunConflict as `accept` does.
        """
        key, session = run_key(new.owner_id, new.run_id), session_key(new.owner_id, new.thread_id)
        digest = digest_of(new)
        pending = json.dumps([[message.id, message.content] for message in new.messages])
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                await open_session(connection, new, session)
                if known := await known_run(connection, new, key, digest):
                    return Accepted(known, created=False, started=None)
                row = await connection.fetchrow(
                    _QUEUE,
                    key,
                    new.owner_id,
                    session,
                    new.run_id,
                    new.origin,
                    dump_request(new.request),
                    digest,
                    pending,
                    new.not_before,
                    new.idempotency_key,
                    new.request.webhook,
                )
                return Accepted(run_of(row), created=True, started=None)
        except asyncpg.UniqueViolationError as error:
            if constraint(error) != "runs_idempotency_unique":
                raise RunConflict(f"Run {new.run_id} was started with another request.") from error
            return Accepted(await self.by_key(new, digest), created=False, started=None)

    @reconnecting
    async def admit(self, key: UUID) -> Turn:
        """Let a queued run into its session, if it is its turn: its messages are said now."""
        async with self._pool.acquire() as connection, connection.transaction():
            session = await connection.fetchval("SELECT session_id FROM runs WHERE id = $1", key)
            last = await connection.fetchval(LOCK_SESSION, session)
            row = await connection.fetchrow(_TURN, key)
            if row is None or row["status"] != RunStatus.QUEUED:
                active = row is not None and row["status"] in ("accepted", "running")
                return Turn(admitted=active, over=not active)
            if row["behind"] or not row["due"]:
                return Turn(admitted=False)
            fresh = await _fresh(connection, session, json.loads(row["pending"]))
            through = last + len(fresh)
            started = RunStarted(row["thread_id"], row["run_id"], through)
            at = await connection.fetchval(
                _ADMIT,
                key,
                last + 1,
                [id for id, _ in fresh],
                [content for _, content in fresh],
                through,
                event_codec.dump_row(started),
            )
            return Turn(True, started=Recorded(position(1), ms(at), started))

    @reconnecting
    async def next_in_line(self, session: UUID) -> UUID | None:
        """The queued run of a session whose turn it is; None if nobody waits."""
        return await self._pool.fetchval(_NEXT, session)

    @reconnecting
    async def stop_early(self, owner_id: UUID, run_id: str, reason: str) -> None:
        """Remember for a minute that a run is not wanted that has not arrived."""
        await self._pool.execute(_STOP_EARLY, run_key(owner_id, run_id), owner_id, reason)

    @reconnecting
    async def stopped_early(self, key: UUID) -> str | None:
        """Why a run that has just arrived is not wanted; None if it is."""
        return await self._pool.fetchval(_STOPPED_EARLY, key)


async def begin_unadmitted(connection: Connection, key: UUID) -> None:
    """Give a run that will never get its turn a beginning, so that its readers' stream is whole."""
    await connection.execute(_BEGIN_UNADMITTED, key)


async def _fresh(
    connection: Connection, session: UUID, pending: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    standing = await connection.fetchrow(STANDING, session, [id for id, _ in pending])
    assert standing is not None
    return [(id, content) for id, content in pending if id not in standing["seen"]]
