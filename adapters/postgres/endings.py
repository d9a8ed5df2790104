"""How a run's end is written, for the two that write it: with the last turn, or by itself."""

from datetime import datetime

from adapters import event_codec
from adapters.postgres.pool import Row
from domain.events import Recorded, RunFinished, position

# Parts of a statement whose CTE `r` returns the run as it is after its UPDATE. They write nothing
# for a run that goes on.
ENDED = "r.status NOT IN ('accepted', 'running')"
END_EVENT = f"""
    INSERT INTO run_events (run_id, seq, kind, payload)
    SELECT r.id, r.last_seq, 'run_finished', jsonb_build_object(
        'kind', 'run_finished', 'status', r.status, 'code', r.error_code,
        'message', r.error_message, 'limit', r.limit_hit, 'usage', jsonb_build_object(
            'input_tokens', r.input_tokens, 'output_tokens', r.output_tokens,
            'cached_tokens', r.cached_tokens))
    FROM r WHERE {ENDED}
    RETURNING seq, payload, created_at
"""  # noqa: S608 (a constant)
END_AUDIT = f"""
    INSERT INTO audit (owner_id, kind, run_id, session_id, origin, executor, profile,
                       dedupe_key, detail)
    SELECT r.owner_id, 'run_' || r.status, r.id, r.session_id, r.origin, r.executor,
           r.profile_name, 'run_finished:' || r.id,
           jsonb_build_object('code', r.error_code, 'limit', r.limit_hit)
    FROM r WHERE {ENDED} ON CONFLICT (dedupe_key) DO NOTHING
"""  # noqa: S608
# With a run its open questions end, and what was given for it alone.
END_QUESTIONS = f"""
    UPDATE checkpoints c SET state = 'cancelled', via = 'run', answered_at = now()
    FROM r WHERE {ENDED} AND c.run_id = r.id AND c.state IN ('open', 'queued')
    RETURNING c.id
"""  # noqa: S608
END_SECRETS = f"DELETE FROM secrets USING r WHERE {ENDED} AND secrets.run_id = r.id"  # noqa: S608


def next_in_line(session: str) -> str:
    """The query for the queued run of a session (a column or parameter) whose turn it is."""
    return f"""
        SELECT q.id FROM runs q WHERE q.session_id = {session} AND q.status = 'queued'
        AND (q.not_before IS NULL OR q.not_before <= now()) ORDER BY q.created_at, q.id LIMIT 1
    """  # noqa: S608 (of our own making)


def end_of(row: Row) -> Recorded:
    """The terminal event from a row of END_EVENT."""
    event = event_codec.load_row(row["payload"], None, None)
    assert isinstance(event, RunFinished)
    at: datetime = row["created_at"]
    return Recorded(position(row["seq"]), int(at.timestamp() * 1000), event)
