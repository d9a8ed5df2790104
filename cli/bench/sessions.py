"""Sessions that have a past: what a run finds in its window when it is not somebody's first."""

from uuid import uuid4

from adapters import event_codec
from adapters.postgres.runs import RunStore
from cli.bench.model import ordinary_request
from cli.bench.stage import Stage
from domain.events import RunStatus
from domain.messages import Message, Role
from domain.runs import Ending, NewRun, RunRequest

_ADD = """
WITH added AS (
    INSERT INTO messages (session_id, seq, id, owner_id, run_id, role, content, tool_calls,
                          tool_call_id)
    SELECT $1, 1 + m.place, m.id, $2, $3, m.role, m.content, m.calls::jsonb, m.call_id
    FROM unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::text[])
         WITH ORDINALITY AS m(id, role, content, calls, call_id, place)
)
UPDATE sessions SET last_seq = 1 + cardinality($4::text[]) WHERE id = $1
"""


def past(exchanges: int) -> tuple[Message, ...]:
    """What was said before: a question, a call with some words, its result, again and again."""
    return ordinary_request("", exchanges).messages[:-1]


async def seeded(stage: Stage, exchanges: int) -> str:
    """The thread id of a new session with this past."""
    thread = f"thread-{uuid4().hex}"
    if exchanges == 0:
        return thread
    store = RunStore(stage.pool)
    first = Message("first", Role.USER, "hello")
    new = NewRun(stage.owner, thread, f"run-{thread}", RunRequest(), (first,))
    run = (await store.accept(new)).run
    await store.finish(run.key, Ending(RunStatus.COMPLETED))
    messages = past(exchanges)
    await stage.pool.execute(
        _ADD,
        run.session_key,
        run.owner_id,
        run.key,
        [message.id for message in messages],
        [message.role for message in messages],
        [message.content for message in messages],
        [event_codec.dump_calls(message.tool_calls) for message in messages],
        [message.tool_call_id for message in messages],
    )
    return thread
