"""What happens inside a run: a turn begins, completes, its tools answer. Each is one statement.

Every method may run twice. A turn's writes are fenced by `runs.open_turn_seq`, the seq of the
turn_started in hand: an attempt that was given up and lives on finds another number there.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from adapters import event_codec
from adapters.postgres.endings import (
    END_AUDIT,
    END_EVENT,
    END_QUESTIONS,
    END_SECRETS,
    end_of,
    next_in_line,
)
from adapters.postgres.events import append
from adapters.postgres.pool import Pool, Row, constraint, reconnecting
from domain.errors import StaleAttempt
from domain.events import (
    DurableEvent,
    Notice,
    Recorded,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
    position,
)
from domain.ids import assistant_message_id, tool_message_id
from domain.messages import FinishReason, Usage
from domain.tools import ToolCall, ToolResult

_BEGIN_TURN = """
WITH r AS (
    UPDATE runs SET last_seq = last_seq + 1, open_turn_seq = last_seq + 1,
                    open_attempt = open_attempt + 1
    WHERE id = $1 AND status = 'running' AND turns = $2 - 1
    RETURNING id, session_id, last_seq, open_attempt, executor
), event AS (
    INSERT INTO run_events (run_id, seq, kind, payload)
    SELECT r.id, r.last_seq, 'turn_started', jsonb_build_object(
        'kind', 'turn_started', 'turn', $2::int, 'attempt', r.open_attempt,
        'message_id', $3 || r.open_attempt, 'executor', r.executor,
        'messages_through', s.last_seq,
        'supersedes', CASE WHEN r.open_attempt > 1 THEN $3 || (r.open_attempt - 1) END)
    FROM r JOIN sessions s ON s.id = r.session_id
    RETURNING seq, payload, created_at
)
SELECT seq, payload, created_at FROM event
"""
# `$14`: the run ends with this turn, `$15`: by which limit. Its end is then written along.
_COMPLETE_TURN = f"""
WITH r AS (
    UPDATE runs SET last_seq = last_seq + 1 + $14::boolean::int, open_turn_seq = NULL,
                    open_attempt = 0, turns = turns + 1, input_tokens = input_tokens + $8,
                    output_tokens = output_tokens + $9, cached_tokens = cached_tokens + $10,
                    cost_micro_usd = cost_micro_usd + $11, limit_hit = $15,
                    status = CASE WHEN $14 THEN 'completed' ELSE status END,
                    finished_at = CASE WHEN $14 THEN now() END
    WHERE id = $1 AND open_turn_seq = $2
    RETURNING *
), s AS (
    UPDATE sessions SET last_seq = sessions.last_seq + 1, updated_at = now()
    FROM r WHERE sessions.id = r.session_id RETURNING sessions.last_seq
), message AS (
    INSERT INTO messages (session_id, seq, id, owner_id, run_id, role, content, tool_calls,
                          hidden_from_user, metadata)
    SELECT r.session_id, s.last_seq, $3, r.owner_id, r.id, 'assistant', $4, $5::jsonb,
           r.origin = 'automation', jsonb_build_object('origin', r.origin, 'run_id', r.run_id,
           'executor', r.executor, 'execution_profile_name', r.profile_name,
           'attempt', $12::int, 'finish_reason', $6::text)
    FROM r, s
), event AS (
    INSERT INTO run_events (run_id, seq, kind, payload)
    SELECT r.id, r.last_seq - $14::boolean::int, 'turn_completed', jsonb_build_object(
        'kind', 'turn_completed', 'turn', r.turns, 'message_id', $3::text,
        'executor', r.executor, 'finish_reason', $6::text)
    FROM r RETURNING seq, created_at
), call AS (
    INSERT INTO model_calls (run_id, turn, attempt, owner_id, model, finish_reason, input_tokens,
                             output_tokens, cached_tokens, cost_micro_usd, seen)
    SELECT r.id, r.turns, $12, r.owner_id, $7, $6, $8, $9, $10, $11, $13::jsonb FROM r
), ended AS ({END_EVENT}), audited AS ({END_AUDIT}),
     asked AS ({END_QUESTIONS}), given AS ({END_SECRETS})
SELECT event.seq AS event_seq, event.created_at AS event_at, r.executor, r.cost_micro_usd,
       ended.seq, ended.payload, ended.created_at,
       CASE WHEN ended.seq IS NOT NULL THEN ({next_in_line("r.session_id")}) END AS next_run
FROM event CROSS JOIN r LEFT JOIN ended ON true
"""  # noqa: S608 (a constant)
_COMPLETED_TURN = f"""
SELECT m.id, m.content, m.tool_calls, m.metadata ->> 'finish_reason' AS finish_reason,
       e.seq AS event_seq, e.created_at AS event_at, r.cost_micro_usd, r.executor,
       ended.seq, ended.payload, ended.created_at,
       CASE WHEN ended.seq IS NOT NULL THEN ({next_in_line("r.session_id")}) END AS next_run
FROM run_events e
JOIN runs r ON r.id = e.run_id
JOIN messages m ON m.session_id = r.session_id AND m.id = e.payload ->> 'message_id'
LEFT JOIN run_events ended ON ended.run_id = r.id AND ended.kind = 'run_finished'
WHERE e.run_id = $1 AND e.kind = 'turn_completed' AND (e.payload ->> 'turn')::int = $2
"""  # noqa: S608
_FINISH_TOOL = """
WITH r AS (
    UPDATE runs SET last_seq = last_seq + 1
    WHERE id = $1 AND status = 'running'
      AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.session_id = runs.session_id AND m.id = $2)
    RETURNING id, run_id, owner_id, session_id, origin, last_seq, executor, profile_name
), s AS (
    UPDATE sessions SET last_seq = sessions.last_seq + 1, updated_at = now()
    FROM r WHERE sessions.id = r.session_id RETURNING sessions.last_seq
), message AS (
    INSERT INTO messages (session_id, seq, id, owner_id, run_id, role, content, tool_call_id,
                          hidden_from_user, metadata)
    SELECT r.session_id, s.last_seq, $2, r.owner_id, r.id, 'tool', $4, $3,
           r.origin = 'automation', jsonb_build_object('origin', r.origin, 'run_id', r.run_id,
           'executor', r.executor, 'execution_profile_name', r.profile_name,
           'tool', $5::text, 'status', $6::text, 'reason', $7::text)
    FROM r, s
), event AS (
    INSERT INTO run_events (run_id, seq, kind, payload)
    SELECT r.id, r.last_seq, 'tool_finished', jsonb_build_object(
        'kind', 'tool_finished', 'call_id', $3::text, 'name', $5::text, 'status', $6::text,
        'message_id', $2::text, 'reason', $7::text)
    FROM r RETURNING seq, created_at
), audited AS (
    INSERT INTO audit (owner_id, kind, run_id, session_id, tool, origin, executor, profile,
                       dedupe_key, detail)
    SELECT r.owner_id, CASE WHEN $6 = 'denied' THEN 'tool_denied' ELSE 'tool_called' END, r.id,
           r.session_id, $5, r.origin, r.executor, r.profile_name, 'tool:' || $3, $8::jsonb
    FROM r ON CONFLICT (dedupe_key) DO NOTHING
)
SELECT seq, created_at FROM event
"""
_TOOL_EVENT = """
SELECT e.seq, e.created_at FROM run_events e
WHERE e.run_id = $1 AND e.kind = 'tool_finished' AND e.payload ->> 'message_id' = $2
"""
_UNANSWERED = """
SELECT c.call ->> 'id' AS id, c.call ->> 'name' AS name, c.call ->> 'arguments' AS arguments
FROM messages m, jsonb_array_elements(m.tool_calls) WITH ORDINALITY AS c(call, place)
WHERE m.run_id = $1 AND m.tool_calls IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM messages t
                  WHERE t.session_id = m.session_id AND t.tool_call_id = c.call ->> 'id')
ORDER BY m.seq, c.place
"""


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A model call that may be made. `started`: its TurnStarted, just written."""

    started: Recorded
    event: TurnStarted


@dataclass(frozen=True, slots=True)
class DoneTurn:
    """A turn whose message is stored. `run_cost_micro_usd`: of the run so far; `finished`: the
    end of the run, if it has ended; `next_run`: whose turn it then is in the session."""

    completed: Recorded
    event: TurnCompleted
    run_cost_micro_usd: int
    finished: Recorded | None = None
    next_run: UUID | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model call came to. `ends`: the run is completed with it, by `limit` if by one."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    model: str
    usage: Usage
    cost_micro_usd: int
    seen: Mapping[str, Any]
    ends: bool = False
    limit: str | None = None


class TurnStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def begin(self, run_key: UUID, turn: int) -> OpenTurn | DoneTurn:
        """Open turn `turn` for one more attempt, or find it done. Raises StaleAttempt otherwise."""
        prefix = assistant_message_id(run_key, turn, 0)[:-1]
        row = await self._pool.fetchrow(_BEGIN_TURN, run_key, turn, prefix)
        if row is not None:
            event = event_codec.load_row(row["payload"], None, None)
            assert isinstance(event, TurnStarted)
            return OpenTurn(_recorded(row["seq"], row["created_at"], event), event)
        if done := await self._done(run_key, turn):
            return done
        raise StaleAttempt(f"Turn {turn} of run {run_key} is not to be made: the run has moved on.")

    @reconnecting
    async def complete(self, run_key: UUID, turn: OpenTurn, done: Completion) -> DoneTurn:
        """Store the assistant message, its event and its usage, and the run's end if it is one.

        Raises StaleAttempt if fenced.
        """
        event = turn.event
        row = await self._pool.fetchrow(
            _COMPLETE_TURN,
            run_key,
            turn.started.seq,
            event.message_id,
            done.text,
            event_codec.dump_calls(done.tool_calls),
            done.finish_reason,
            done.model,
            done.usage.input_tokens,
            done.usage.output_tokens,
            done.usage.cached_tokens,
            done.cost_micro_usd,
            event.attempt,
            json.dumps(done.seen),
            done.ends,
            done.limit,
        )
        if row is None:
            stored = await self._done(run_key, event.turn)
            if stored is not None and stored.event.message_id == event.message_id:
                return stored  # the first commit had arrived
            raise StaleAttempt(f"Attempt {event.attempt} of turn {event.turn} was superseded.")
        return _done_turn(
            row, event.turn, event.message_id, done.finish_reason, done.text, done.tool_calls
        )

    async def _done(self, run_key: UUID, turn: int) -> DoneTurn | None:
        row = await self._pool.fetchrow(_COMPLETED_TURN, run_key, turn)
        if row is None:
            return None
        calls = event_codec.load_calls(row["tool_calls"])
        return _done_turn(row, turn, row["id"], row["finish_reason"], row["content"], calls)

    @reconnecting
    async def finish_tool(
        self, run_key: UUID, result: ToolResult, audit: Mapping[str, Any]
    ) -> Recorded | None:
        """Store a call's one result with its event and audit row; a second one changes nothing.

        None when the run has ended meanwhile: a late result is dropped.
        """
        message_id = tool_message_id(result.call_id)
        event = ToolFinished(
            result.call_id, result.name, result.status, message_id, result.reason, result.content
        )
        try:
            row = await self._pool.fetchrow(
                _FINISH_TOOL,
                run_key,
                message_id,
                result.call_id,
                result.content,
                result.name,
                result.status,
                result.reason,
                json.dumps(audit),
            )
        except asyncpg.UniqueViolationError as error:  # a twin got there first
            if constraint(error) != "messages_session_id_unique":
                raise
            row = None
        if row is not None:
            return _recorded(row["seq"], row["created_at"], event)
        row = await self._pool.fetchrow(_TOOL_EVENT, run_key, message_id)
        return None if row is None else _recorded(row["seq"], row["created_at"], event)

    @reconnecting
    async def unanswered(self, run_key: UUID) -> tuple[ToolCall, ...]:
        """Calls of this run that have no result, in the order the model made them."""
        rows = await self._pool.fetch(_UNANSWERED, run_key)
        return tuple(ToolCall(row["id"], row["name"], row["arguments"]) for row in rows)

    @reconnecting
    async def notice(self, run_key: UUID, notice: Notice) -> Recorded | None:
        """Add a notice to the run's events; None if the run has ended."""
        return await append(self._pool, run_key, notice)


def _done_turn(
    row: Row, turn: int, message_id: str, finish: str, text: str, calls: tuple[ToolCall, ...]
) -> DoneTurn:
    event = TurnCompleted(turn, message_id, row["executor"], finish, text, calls)
    recorded = _recorded(row["event_seq"], row["event_at"], event)
    finished = None if row["seq"] is None else end_of(row)
    return DoneTurn(recorded, event, row["cost_micro_usd"], finished, row["next_run"])


def _recorded(seq: int, at: datetime, event: DurableEvent) -> Recorded:
    return Recorded(position(seq), int(at.timestamp() * 1000), event)
