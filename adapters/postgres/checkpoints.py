"""Checkpoints: reading them, and writing down what is to be asked and what was answered.

What becomes of one is in checkpoint_changes.py.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from adapters.postgres.pool import Pool, Row, reconnecting
from domain.checkpoints import (
    POLICIES,
    Action,
    ActionType,
    Checkpoint,
    OnTimeout,
    Question,
    Scenario,
    Severity,
    State,
    Via,
    arguments_digest,
)
from domain.errors import NotFound
from domain.text import clean, cleaned

COLUMNS = """
c.id, c.owner_id, c.run_id AS run_key, r.run_id, s.thread_id, c.task_id, c.call_id, c.tool,
c.arguments, c.scenario, c.severity, c.blocking, c.title, c.body, c.context, c.actions,
c.secret_for, c.state, c.on_timeout, c.deadline, c.reminders, c.created_at, c.opened_at,
c.answered_at, c.answered_by, c.via, c.action, c.input
"""
_FROM = "checkpoints c JOIN runs r ON r.id = c.run_id JOIN sessions s ON s.id = c.session_id"
_GET = f"SELECT {COLUMNS} FROM {_FROM} WHERE c.id = $1 AND ($2::uuid IS NULL OR c.owner_id = $2)"  # noqa: S608
_BY_IDS = f"""
SELECT {COLUMNS} FROM {_FROM} JOIN unnest($1::uuid[]) WITH ORDINALITY AS wanted(id, place)
     ON wanted.id = c.id ORDER BY wanted.place
"""  # noqa: S608 (a constant, here and below)
_OF_CALL = f"SELECT {COLUMNS} FROM {_FROM} WHERE c.run_id = $1 AND c.call_id = $2"  # noqa: S608
_OPEN_OF_SESSION = f"""
SELECT {COLUMNS} FROM {_FROM}
WHERE c.owner_id = $1 AND c.session_id = $2 AND c.state = 'open' AND c.blocking
ORDER BY c.opened_at, c.created_at, c.id
"""  # noqa: S608
_LIST = f"""
SELECT {COLUMNS} FROM {_FROM}
WHERE ($1::uuid IS NULL OR c.owner_id = $1)
  AND ($2::text[] IS NULL OR c.state = ANY($2))
  AND ($3::text IS NULL OR c.scenario = $3)
  AND ($4::uuid IS NULL OR c.run_id = $4)
  AND ($5::text IS NULL OR s.thread_id = $5)
  AND ($6::timestamptz IS NULL OR (c.created_at, c.id) < ($6, $7))
ORDER BY c.created_at DESC, c.id DESC LIMIT $8
"""  # noqa: S608
_RAISE = """
INSERT INTO checkpoints (id, owner_id, session_id, run_id, call_id, tool, arguments,
                         arguments_digest, batch, scenario, severity, blocking, title, body,
                         context, actions, secret_for, state, on_timeout)
SELECT $2, r.owner_id, r.session_id, r.id, $3, $4, $5::jsonb, $6, $7, $8, $9, $10, $11, $12,
       $13::jsonb, $14::jsonb, $15, 'queued', $16
FROM runs r WHERE r.id = $1 AND r.status IN ('queued', 'accepted', 'running')
ON CONFLICT DO NOTHING
"""
# What was decided about the same call before: in this session for good, or refused in this run.
_DECIDED = """
SELECT action FROM checkpoints
WHERE session_id = (SELECT session_id FROM runs WHERE id = $1) AND tool = $2
  AND arguments_digest = $3
  AND (action = 'approve_session' AND state = 'answered'
       OR run_id = $1 AND call_id <> $4 AND state IN ('answered', 'expired')
          AND action IN ('deny', 'refuse', 'cancelled'))
ORDER BY answered_at DESC LIMIT 1
"""
_DRAFT = """
INSERT INTO checkpoint_answers (id, checkpoint_id, owner_id, actor_id, via, action, input,
                                secret_id)
SELECT $1, c.id, c.owner_id, $4, $5, $6, $7::jsonb, $8
FROM checkpoints c WHERE c.id = $2 AND c.owner_id = $3
"""
_KEEP_SECRET = """
INSERT INTO secrets (id, owner_id, run_id, tool, name, value)
SELECT $1, c.owner_id, c.run_id, c.secret_for, c.context ->> 'name', $3
FROM checkpoints c WHERE c.id = $2 AND c.secret_for IS NOT NULL
"""
_WON = "SELECT answer_id FROM checkpoints WHERE answer_id = ANY($1::uuid[])"
_SECRET = """
SELECT s.value FROM secrets s JOIN checkpoint_answers a ON a.secret_id = s.id
JOIN checkpoints c ON c.id = a.checkpoint_id AND c.state = 'answered' AND c.answer_id = a.id
WHERE s.run_id = $1 AND s.tool = $2 AND s.name = $3 ORDER BY s.created_at DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class AboutCall:
    """The tool call that a question holds up."""

    call_id: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CheckpointFilter:
    """`owner_id` None: every owner's (operators only). `before`: (created_at, id) of the last."""

    owner_id: UUID | None
    states: tuple[State, ...] | None = None
    scenario: Scenario | None = None
    run_key: UUID | None = None
    thread_id: str | None = None
    before: tuple[datetime, UUID] | None = None


class CheckpointStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def get(self, owner_id: UUID | None, id: UUID) -> Checkpoint:
        """Raises NotFound, for another owner's too; no owner: anybody's."""
        row = await self._pool.fetchrow(_GET, id, owner_id)
        if row is None:
            raise NotFound("There is no such checkpoint.")
        return checkpoint_of(row)

    @reconnecting
    async def by_ids(self, ids: Sequence[str]) -> list[Checkpoint]:
        """In the order of the ids."""
        rows = await self._pool.fetch(_BY_IDS, [UUID(id) for id in ids])
        return [checkpoint_of(row) for row in rows]

    @reconnecting
    async def of_call(self, run_key: UUID, call_id: str) -> Checkpoint | None:
        """The question that this tool call raised, if it did."""
        row = await self._pool.fetchrow(_OF_CALL, run_key, call_id)
        return None if row is None else checkpoint_of(row)

    @reconnecting
    async def open_of_session(self, owner_id: UUID, session_key: UUID) -> list[Checkpoint]:
        """The questions that hold this session up, in the order in which they were put."""
        rows = await self._pool.fetch(_OPEN_OF_SESSION, owner_id, session_key)
        return [checkpoint_of(row) for row in rows]

    @reconnecting
    async def list(self, where: CheckpointFilter, limit: int) -> list[Checkpoint]:
        """Newest first."""
        before_at, before_id = where.before or (None, None)
        states = None if where.states is None else [state.value for state in where.states]
        rows = await self._pool.fetch(
            _LIST,
            where.owner_id,
            states,
            where.scenario,
            where.run_key,
            where.thread_id,
            before_at,
            before_id,
            limit,
        )
        return [checkpoint_of(row) for row in rows]

    @reconnecting
    async def raise_(
        self, run_key: UUID, id: UUID, question: Question, batch: str, about: AboutCall | None
    ) -> None:
        """Write down what is to be asked; nobody is asked yet. Twice is once."""
        policy = POLICIES[question.scenario]
        await self._pool.execute(
            _RAISE,
            run_key,
            id,
            about.call_id if about else None,
            about.tool if about else None,
            json.dumps(about.arguments) if about else None,
            arguments_digest(about.arguments) if about else None,
            batch,
            question.scenario,
            policy.severity,
            policy.blocking,
            clean(question.title),
            clean(question.body),
            json.dumps(cleaned(dict(question.context))),
            json.dumps(
                [{"id": a.id, "label": clean(a.label), "type": a.type} for a in question.actions]
            ),
            question.secret_for,
            policy.on_timeout,
        )

    @reconnecting
    async def decided(self, run_key: UUID, about: AboutCall) -> str | None:
        """The action that settles this call without asking: `approve_session` somewhere in its
        session, or a refusal of the same call in this run."""
        digest = arguments_digest(about.arguments)
        return await self._pool.fetchval(_DECIDED, run_key, about.tool, digest, about.call_id)

    @reconnecting
    async def draft_answer(
        self,
        owner_id: UUID,
        checkpoint_id: UUID,
        *,
        actor_id: UUID | None,
        via: Via,
        action: str,
        input: Any = None,
        secret: str | None = None,
    ) -> UUID:
        """Write down an answer before the run is told of it; it does not count yet."""
        answer, kept = uuid4(), uuid4() if secret is not None else None
        async with self._pool.acquire() as connection, connection.transaction():
            if kept is not None:
                await connection.execute(_KEEP_SECRET, kept, checkpoint_id, secret)
            document = None if input is None else json.dumps(input)
            await connection.execute(
                _DRAFT, answer, checkpoint_id, owner_id, actor_id, via, action, document, kept
            )
        return answer

    @reconnecting
    async def answered_with(self, answer_ids: Sequence[UUID]) -> Sequence[UUID]:
        """Those of these answers that count."""
        rows = await self._pool.fetch(_WON, list(answer_ids))
        return [row["answer_id"] for row in rows]

    @reconnecting
    async def secret(self, run_key: UUID, tool: str, name: str) -> str | None:
        """What a person gave for this tool under this name; None if nobody did."""
        return await self._pool.fetchval(_SECRET, run_key, tool, name)


def checkpoint_of(row: Row) -> Checkpoint:
    return Checkpoint(
        id=row["id"],
        owner_id=row["owner_id"],
        run_key=row["run_key"],
        run_id=row["run_id"],
        thread_id=row["thread_id"],
        task_id=row["task_id"],
        call_id=row["call_id"],
        tool=row["tool"],
        arguments=_loaded(row["arguments"]),
        scenario=Scenario(row["scenario"]),
        severity=Severity(row["severity"]),
        blocking=row["blocking"],
        title=row["title"],
        body=row["body"],
        context=json.loads(row["context"]),
        actions=tuple(
            Action(a["id"], a["label"], ActionType(a["type"])) for a in json.loads(row["actions"])
        ),
        secret_for=row["secret_for"],
        state=State(row["state"]),
        on_timeout=OnTimeout(row["on_timeout"]) if row["on_timeout"] else None,
        deadline=row["deadline"],
        reminders=row["reminders"],
        created_at=row["created_at"],
        opened_at=row["opened_at"],
        answered_at=row["answered_at"],
        answered_by=row["answered_by"],
        via=Via(row["via"]) if row["via"] else None,
        action=row["action"],
        input=_loaded(row["input"]),
    )


def _loaded(document: str | None) -> Any:
    return None if document is None else json.loads(document)
