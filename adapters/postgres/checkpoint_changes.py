"""What becomes of a checkpoint: put to people, reminded of, answered, expired; and its run with it.

Every change is one transaction: row, event and audit together, and what the change means for the
run, which stands still or goes on. Each may be asked for twice. Published by the caller.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from adapters.postgres.checkpoint_log import ChangeLog
from adapters.postgres.pool import Connection, Pool, Row, reconnecting
from domain.checkpoints import (
    EDIT,
    Answer,
    AnswerInput,
    Change,
    Refusal,
    Refused,
    State,
    Via,
)
from domain.desk import Decision
from domain.events import Recorded
from domain.text import clean, cleaned

_LOCK_RUN = """
SELECT r.id, r.owner_id, r.session_id, r.run_id, r.origin, r.executor, r.profile_name, r.segment,
       r.paused, r.input_tokens, r.output_tokens, r.cached_tokens, s.last_seq AS through
FROM runs r JOIN sessions s ON s.id = r.session_id
WHERE r.id = $1 AND r.status = 'running' FOR UPDATE OF r
"""
_ROW = """id, call_id, scenario, severity, blocking, title, state, deadline, reminders, action, via,
answered_by, answered_at, secret_for, answer_id"""
_PUT = f"""
UPDATE checkpoints SET state = CASE WHEN blocking THEN 'open' ELSE 'noted' END, deadline = $3,
       opened_at = now()
WHERE run_id = $1 AND id = $2 AND state = 'queued' RETURNING {_ROW}
"""  # noqa: S608 (a constant, here and below)
_QUEUED = f"""
SELECT {_ROW} FROM checkpoints c WHERE run_id = $1 AND id = $2 AND state = 'queued'
AND NOT EXISTS (SELECT 1 FROM audit a WHERE a.dedupe_key = 'checkpoint:' || c.id || ':queued')
"""  # noqa: S608
_REMIND = f"""
UPDATE checkpoints SET reminders = $3
WHERE run_id = $1 AND id = $2 AND state = 'open' AND reminders < $3 RETURNING {_ROW}
"""  # noqa: S608
_EXPIRE = f"""
UPDATE checkpoints SET state = 'expired', action = on_timeout, via = 'timeout',
       answered_at = now()
WHERE run_id = $1 AND id = $2 AND state = 'open' RETURNING {_ROW}
"""  # noqa: S608
_LOCKED = f"""
SELECT {_ROW} FROM checkpoints WHERE run_id = $1 AND id = ANY($2::uuid[]) ORDER BY id FOR UPDATE
"""  # noqa: S608
_ANSWER = f"""
UPDATE checkpoints SET state = 'answered', action = $3, answered_by = $4, via = $5,
       input = $6::jsonb, answer_id = $7, answered_at = now()
WHERE run_id = $1 AND id = $2 RETURNING {_ROW}
"""  # noqa: S608
_DRAFTED = "SELECT input FROM checkpoint_answers WHERE id = $1 AND checkpoint_id = $2"
_CURRENT_SEGMENT = "SELECT run_id FROM run_segments WHERE run_key = $1 AND number = $2"
_MOST_CHARACTERS = 20_000  # of an answer that came without being checked by the API


@dataclass(frozen=True, slots=True)
class Done:
    """`events`: to be published, oldest first; `run_id`: of the segment that the run is in, if
    the change made it go on; `stands`: it waits for people now; `decisions`: how the checkpoints
    that it was about are afterwards; `refusal`: why answers don't count."""

    events: tuple[Recorded, ...] = ()
    run_id: str | None = None
    stands: bool = False
    decisions: tuple[Decision, ...] = ()
    refusal: Refusal | None = None


class CheckpointChanges:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def put(
        self,
        run_key: UUID,
        opened: Sequence[tuple[str, datetime | None]],
        queued: Sequence[str] = (),
    ) -> Done:
        """Put questions to people, each with its deadline; of the others say that they wait."""
        async with self._pool.acquire() as connection, connection.transaction():
            run = await connection.fetchrow(_LOCK_RUN, run_key)
            if run is None:
                return Done()
            log = ChangeLog(connection, run)
            for id, deadline in opened:
                if row := await connection.fetchrow(_PUT, run_key, UUID(id), deadline):
                    noted = row["state"] == State.NOTED
                    await log.change(row, Change.NOTED if noted else Change.OPENED)
            for id in queued:
                if row := await connection.fetchrow(_QUEUED, run_key, UUID(id)):
                    await log.change(row, Change.QUEUED)
            return Done(tuple(log.events))

    @reconnecting
    async def remind(self, run_key: UUID, id: str, count: int) -> Done:
        """Note that its `count`-th reminder went out."""
        async with self._pool.acquire() as connection, connection.transaction():
            run = await connection.fetchrow(_LOCK_RUN, run_key)
            row = await connection.fetchrow(_REMIND, run_key, UUID(id), count)
            if run is None or row is None:
                return Done()
            log = ChangeLog(connection, run)
            await log.change(row, Change.REMINDED)
            return Done(tuple(log.events))

    @reconnecting
    async def expire(self, run_key: UUID, ids: Sequence[str]) -> Done:
        """Nobody answered in time: what silence means holds, and the run goes on with it."""
        async with self._pool.acquire() as connection, connection.transaction():
            run = await connection.fetchrow(_LOCK_RUN, run_key)
            if run is None:
                return Done(decisions=await _decisions(connection, run_key, ids))
            rows = [await connection.fetchrow(_EXPIRE, run_key, UUID(id)) for id in ids]
            late = [row for row in rows if row is not None]
            log = ChangeLog(connection, run)
            if late:
                await log.resume(None, None)
            for row in late:
                await log.change(row, Change.EXPIRED)
            decisions = await _decisions(connection, run_key, ids)
            return Done(tuple(log.events), log.run_id, decisions=decisions)

    @reconnecting
    async def answer(self, run_key: UUID, input: AnswerInput) -> Done:
        """Have these answers count, all of them or none. The same again changes nothing."""
        ids = [answer.checkpoint_id for answer in input.answers]
        async with self._pool.acquire() as connection, connection.transaction():
            run = await connection.fetchrow(_LOCK_RUN, run_key)
            known = await connection.fetch(_LOCKED, run_key, sorted(UUID(id) for id in ids))
            settled = _settled({str(row["id"]): row for row in known}, input)
            if settled is None and run is not None:
                done = await _count(connection, run, input)
            else:
                gone = Refusal(Refused.EXPIRED, ids[0])
                refusal = settled if isinstance(settled, Refusal) else None if settled else gone
                segment = await _segment_of(connection, run_key, run)
                done = Done(run_id=segment, refusal=refusal)
            return replace(done, decisions=await _decisions(connection, run_key, ids))

    @reconnecting
    async def pause(self, run_key: UUID) -> Done:
        """The run stands still; nothing happens if no question is open, or it does already."""
        async with self._pool.acquire() as connection, connection.transaction():
            run = await connection.fetchrow(_LOCK_RUN, run_key)
            if run is None or run["paused"]:
                return Done((), stands=run is not None)
            log = ChangeLog(connection, run)
            await log.pause()
            return Done(tuple(log.events), stands=bool(log.events))


async def _count(connection: Connection, run: Row, input: AnswerInput) -> Done:
    said = [(answer, await _input(connection, answer)) for answer in input.answers]
    for answer, given in said:
        if answer.action == EDIT and not isinstance(given, dict):
            return Done(refusal=Refusal(Refused.ACTION, answer.checkpoint_id))
    log = ChangeLog(connection, run)
    if input.segment is not None and not run["paused"]:
        await log.pause()
    await log.resume(input.segment, input.segment_digest)
    for answer, given in said:
        row = await connection.fetchrow(
            _ANSWER,
            run["id"],
            UUID(answer.checkpoint_id),
            answer.action,
            input.by,
            input.via,
            None if given is None else json.dumps(given),
            answer.answer_id,
        )
        await log.change(row, Change.ANSWERED, input.by)
    return Done(tuple(log.events), log.run_id)


async def _input(connection: Connection, answer: Answer) -> Any:
    """What came with an answer; edited arguments that came as text are read."""
    if answer.answer_id is not None:
        id = UUID(answer.checkpoint_id)
        document = await connection.fetchval(_DRAFTED, answer.answer_id, id)
        return None if document is None else json.loads(document)
    if answer.action != EDIT:
        return clean(answer.text)[:_MOST_CHARACTERS] or None
    try:
        return cleaned(json.loads(answer.text))
    except ValueError:
        return None


def _settled(rows: dict[str, Row], input: AnswerInput) -> Refusal | bool | None:
    """None: all can be answered; True: exactly this has been said before."""
    again = 0
    for answer in input.answers:
        row = rows.get(answer.checkpoint_id)
        if row is None:
            return Refusal(Refused.UNKNOWN, answer.checkpoint_id)
        if State(row["state"]).pending:
            continue
        same = (answer.action, input.by, input.via, answer.answer_id)
        if (row["action"], row["answered_by"], row["via"], row["answer_id"]) == same:
            again += 1
            continue
        type = Refused.ANSWERED if row["state"] == State.ANSWERED else Refused.EXPIRED
        via = Via(row["via"]) if row["via"] else None
        return Refusal(
            type,
            answer.checkpoint_id,
            row["action"],
            row["answered_by"],
            via,
            row["answered_at"],
        )
    return True if again == len(input.answers) else None


async def _decisions(
    connection: Connection, run_key: UUID, ids: Sequence[str]
) -> tuple[Decision, ...]:
    rows = await connection.fetch(_LOCKED, run_key, sorted(UUID(id) for id in ids))
    return tuple(
        Decision(
            str(row["id"]),
            State(row["state"]),
            row["action"],
            row["answered_by"],
            Via(row["via"]) if row["via"] else None,
            row["answered_at"],
        )
        for row in rows
    )


async def _segment_of(connection: Connection, run_key: UUID, run: Row | None) -> str | None:
    if run is None:
        return None
    return await connection.fetchval(_CURRENT_SEGMENT, run_key, run["segment"])
