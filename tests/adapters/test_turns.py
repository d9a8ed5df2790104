"""What is written inside a run: fenced, once, in order."""

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from adapters.postgres.events import EventStore
from adapters.postgres.messages import MessageStore
from adapters.postgres.pool import Pool
from adapters.postgres.runs import RunStore
from adapters.postgres.turns import Completion, DoneTurn, OpenTurn, TurnStore
from domain.errors import StaleAttempt
from domain.events import Notice, RunFinished, RunStatus, ToolFinished, TurnCompleted, TurnStarted
from domain.ids import assistant_message_id
from domain.messages import FinishReason, Usage
from domain.runs import Ending, Run
from domain.tools import ToolCall, ToolResult, ToolStatus
from tests.people import accept, add_owner, begin

CALL = ToolCall("call_1", "memory_search", '{"query":"tea"}')
RESULT = ToolResult("call_1", "memory_search", ToolStatus.OK, "tea is green")


def completion(text: str, *calls: ToolCall) -> Completion:
    reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
    return Completion(text, calls, reason, "m", Usage(10, 2, 4), 7, {"messages": ["x"]})


async def started(pool: Pool) -> Run:
    run = (await accept(pool, await add_owner(pool))).run
    await begin(pool, run.key)
    return run


async def opened(pool: Pool, key: UUID, turn: int = 1) -> OpenTurn:
    turn_in_hand = await TurnStore(pool).begin(key, turn)
    assert isinstance(turn_in_hand, OpenTurn)
    return turn_in_hand


async def test_a_turn_leaves_one_message_one_event_and_its_usage(pool: Pool) -> None:
    run = await started(pool)
    turn = await opened(pool, run.key)
    done = await TurnStore(pool).complete(run.key, turn, completion("hello", CALL))
    events = [recorded.event for recorded in await EventStore(pool).load(run.key, 1)]
    assert events == [
        TurnStarted(1, 1, assistant_message_id(run.key, 1, 1), "worker", 1),
        TurnCompleted(1, done.event.message_id, "worker", "tool_calls", "hello", (CALL,)),
    ]
    assert done.completed == (await EventStore(pool).load(run.key, 2))[0]
    after = await RunStore(pool).get_by_key(run.key)
    assert (after.usage, after.turns, after.cost_micro_usd) == (Usage(10, 2, 4), 1, 7)


async def test_a_turn_that_is_done_is_found_not_made_again(pool: Pool) -> None:
    run = await started(pool)
    done = await TurnStore(pool).complete(run.key, await opened(pool, run.key), completion("hello"))
    assert await TurnStore(pool).begin(run.key, 1) == done


async def test_a_last_turn_ends_the_run_and_frees_its_session(pool: Pool) -> None:
    run = await started(pool)
    store = TurnStore(pool)
    turn = await opened(pool, run.key)
    last = replace(completion("bye"), ends=True, limit="max_turns")
    done = await store.complete(run.key, turn, last)
    *_, completed, finished = await EventStore(pool).load(run.key)
    assert (done.completed, done.finished) == (completed, finished)
    assert finished.event == RunFinished(RunStatus.COMPLETED, Usage(10, 2, 4), limit="max_turns")
    assert finished.seq == completed.seq + 1
    after = await RunStore(pool).get_by_key(run.key)
    assert (after.status, after.limit, after.last_seq) == (
        RunStatus.COMPLETED,
        "max_turns",
        finished.seq,
    )
    kinds = await pool.fetch("SELECT kind FROM audit WHERE run_id = $1", run.key)
    assert [row["kind"] for row in kinds] == ["run_completed"]
    assert await RunStore(pool).finish(run.key, Ending(RunStatus.FAILED, "late", "too late")) == (
        finished,
        False,
    )


async def test_a_last_turn_run_again_finds_the_end_it_wrote(pool: Pool) -> None:
    run = await started(pool)
    store = TurnStore(pool)
    turn = await opened(pool, run.key)
    last = replace(completion("bye"), ends=True)
    done = await store.complete(run.key, turn, last)
    assert await store.complete(run.key, turn, last) == done
    assert await store.begin(run.key, 1) == done


async def test_completing_twice_stores_one_message(pool: Pool) -> None:
    run = await started(pool)
    turn = await opened(pool, run.key)
    store = TurnStore(pool)
    first = await store.complete(run.key, turn, completion("hello"))
    assert await store.complete(run.key, turn, completion("hello")) == first
    assert len(await MessageStore(pool).conversation(run.session_key, 100)) == 2


async def test_a_second_attempt_supersedes_the_first_which_may_write_nothing(pool: Pool) -> None:
    run = await started(pool)
    store = TurnStore(pool)
    late, current = await opened(pool, run.key), await opened(pool, run.key)
    assert (current.event.attempt, current.event.supersedes) == (2, late.event.message_id)
    with pytest.raises(StaleAttempt):
        await store.complete(run.key, late, completion("too late"))
    await store.complete(run.key, current, completion("in time"))
    with pytest.raises(StaleAttempt):
        await store.complete(run.key, late, completion("too late"))
    messages = await MessageStore(pool).conversation(run.session_key, 100)
    assert [m.content for m in messages] == ["hello", "in time"]


async def test_a_turn_out_of_order_is_refused(pool: Pool) -> None:
    run = await started(pool)
    with pytest.raises(StaleAttempt):
        await TurnStore(pool).begin(run.key, 2)


async def test_a_run_that_ended_begins_no_turn_and_takes_no_result(pool: Pool) -> None:
    run = await started(pool)
    turn = await opened(pool, run.key)
    await RunStore(pool).finish(run.key, Ending(RunStatus.INTERRUPTED))
    with pytest.raises(StaleAttempt):
        await TurnStore(pool).begin(run.key, 1)
    with pytest.raises(StaleAttempt):
        await TurnStore(pool).complete(run.key, turn, completion("late"))
    assert await TurnStore(pool).finish_tool(run.key, RESULT, {}) is None


async def test_twenty_results_of_one_call_leave_one(pool: Pool) -> None:
    run = await started(pool)
    store = TurnStore(pool)
    await store.complete(run.key, await opened(pool, run.key), completion("", CALL))
    assert await store.unanswered(run.key) == (CALL,)
    recorded = await asyncio.gather(
        *(store.finish_tool(run.key, RESULT, {"n": i}) for i in range(20))
    )
    assert len({item.position for item in recorded if item}) == 1
    assert await store.unanswered(run.key) == ()
    events = [r.event for r in await EventStore(pool).load(run.key, 3)]
    assert events == [
        ToolFinished("call_1", "memory_search", ToolStatus.OK, "tool_call_1", None, "tea is green")
    ]
    messages = await MessageStore(pool).conversation(run.session_key, 100)
    assert [m.seq for m in messages] == [1, 2, 3]
    assert await pool.fetchval("SELECT count(*) FROM audit WHERE kind = 'tool_called'") == 1


async def test_results_of_many_calls_at_once_are_numbered_densely(pool: Pool) -> None:
    run = await started(pool)
    calls = tuple(ToolCall(f"c{i}", "t", "{}") for i in range(16))
    store = TurnStore(pool)
    await store.complete(run.key, await opened(pool, run.key), completion("", *calls))
    await asyncio.gather(
        *(
            store.finish_tool(run.key, ToolResult(c.id, c.name, ToolStatus.DENIED, "no", "no"), {})
            for c in calls
        )
    )
    events = await EventStore(pool).load(run.key)
    assert [e.seq for e in events] == list(range(1, 20))
    messages = await MessageStore(pool).conversation(run.session_key, 100)
    assert [m.seq for m in messages] == list(range(1, 19))
    assert await pool.fetchval("SELECT count(*) FROM audit WHERE kind = 'tool_denied'") == 16


async def test_a_notice_is_kept_until_the_run_ends(pool: Pool) -> None:
    run = await started(pool)
    notice = Notice("varve.budget", {"limit": 1})
    recorded = await TurnStore(pool).notice(run.key, notice)
    assert recorded is not None
    assert (await EventStore(pool).load(run.key, 1)) == [recorded]
    await RunStore(pool).finish(run.key, Ending(RunStatus.COMPLETED))
    assert await TurnStore(pool).notice(run.key, notice) is None


async def test_a_connection_killed_by_the_server_is_replaced(pool: Pool) -> None:
    run = await started(pool)
    await pool.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert isinstance(await TurnStore(pool).begin(run.key, 1), OpenTurn)
    assert not isinstance(await TurnStore(pool).begin(run.key, 1), DoneTurn)
