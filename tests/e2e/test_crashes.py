"""Processes die in the middle of an answer; nothing is lost and nothing is said twice."""

import asyncio
from uuid import uuid4

import pytest

from cli.stack.postgres import connection
from domain.ids import run_key, session_key, tool_call_id
from tests.e2e.client import Client, Reader, assert_all_agree, shown
from tests.e2e.stack import Stack, back, parsed, until

pytestmark = pytest.mark.anyio

SLOW = "Tell me about varves. [[standin: tokens=60 delay_ms=50 flush]]"
WORDS = 60

FINAL = """
SELECT m.content, m.metadata FROM messages m JOIN runs r ON r.id = m.run_id
WHERE r.run_id = $1 AND m.role = 'assistant'
"""
EVENTS = """
SELECT e.seq, e.kind, e.payload FROM run_events e JOIN runs r ON r.id = e.run_id
WHERE r.run_id = $1 ORDER BY e.seq
"""


async def assert_one_answer(stack: Stack, run: Reader, words: int = WORDS) -> None:
    """PostgreSQL has one whole assistant message, events without a hole, and one end."""
    answers = await stack.rows(FINAL, run.run_id)
    assert [len(row["content"].split()) for row in answers] == [words]
    events = await stack.rows(EVENTS, run.run_id)
    assert [row["seq"] for row in events] == list(range(1, len(events) + 1))
    kinds = [row["kind"] for row in events]
    assert kinds.count("run_finished") == 1
    assert kinds[-1] == "run_finished"
    assert (await run.client.run(run))["status"] == "completed"


async def test_a_killed_worker_costs_nobody_a_word(stack: Stack, client: Client) -> None:
    steady = client.post(SLOW)
    await steady.says(10)
    restless = client.follow(steady, take=3)
    holding = client.follow(steady)
    await holding.says(10)
    await holding.leave()

    await stack.crash(stack.worker)
    await steady.sees(lambda r: _retried(r) and len(r.text.split()) > 5, "a second attempt")
    newcomer = client.follow(steady)
    await steady.done()
    holding.start()
    afterwards = client.follow(steady)

    await assert_all_agree(steady, restless, holding, newcomer, afterwards)
    await assert_one_answer(stack, steady)
    assert _retried(steady)
    assert _retried(restless)
    started = [
        parsed(row, "payload")
        for row in await stack.rows(EVENTS, steady.run_id)
        if row["kind"] == "turn_started"
    ]
    assert [event["attempt"] for event in started] == [1, 2]
    assert started[1]["supersedes"] == started[0]["message_id"]


async def test_a_killed_api_is_only_a_pause(stack: Stack, client: Client) -> None:
    steady = client.post(SLOW)
    restless = client.follow(steady, take=4)
    await steady.says(8)
    await stack.crash(stack.api)
    afterwards = client.follow(await steady.done())
    await assert_all_agree(steady, restless, afterwards)
    await assert_one_answer(stack, steady)
    assert steady.connections > 1
    assert not _retried(steady)


async def test_an_api_that_is_stopped_in_order_tells_its_readers_to_come_back(
    stack: Stack, client: Client
) -> None:
    steady = client.post(SLOW)
    await steady.says(8)
    stack.tally.faults["SIGTERM API"] += 1
    await stack.api.stop()
    await stack.api.start()
    await assert_all_agree(steady)
    await assert_one_answer(stack, steady)


@pytest.mark.parametrize("words_missed", [0, 30])
async def test_a_killed_valkey_takes_no_text_with_it(
    stack: Stack, client: Client, words_missed: int
) -> None:
    """It comes back empty: soon enough to carry the rest, or when much has been said without it."""
    steady = client.post(SLOW)
    restless = client.follow(steady, take=3)
    holding = client.follow(steady)
    await holding.says(6)
    await holding.leave()
    async with stack.without(stack.valkey):
        newcomer = client.follow(steady)
        await _written(stack, steady, words_missed)
    afterwards = client.follow(await steady.done())
    holding.start()
    await assert_all_agree(steady, restless, holding, newcomer, afterwards)
    await assert_one_answer(stack, steady)
    assert not _retried(steady)


async def test_a_run_without_any_valkey_is_told_from_the_database(
    stack: Stack, client: Client
) -> None:
    async with stack.without(stack.valkey):
        steady = client.post("Say it anyway. [[standin: tokens=20]]")
        await assert_all_agree(steady)
        await assert_one_answer(stack, steady, words=20)


async def test_api_valkey_and_worker_die_one_after_the_other(stack: Stack, client: Client) -> None:
    steady = client.post("A long one. [[standin: tokens=90 delay_ms=50 flush]]")
    restless = client.follow(steady, take=5)
    await steady.says(8)
    await stack.crash(stack.api)
    await steady.says(16)
    await stack.crash(stack.valkey)
    await _written(stack, steady, 30)
    await stack.crash(stack.worker)
    newcomer = client.follow(steady)
    await assert_all_agree(steady, restless, newcomer)
    await assert_one_answer(stack, steady, words=90)


async def test_twenty_runs_survive_worker_api_and_valkey_dying_at_once(
    stack: Stack, client: Client
) -> None:
    runs = [client.post(SLOW) for _ in range(20)]
    await asyncio.gather(*(run.says(8) for run in runs))
    await asyncio.gather(*(stack.kill(part) for part in (stack.worker, stack.api, stack.valkey)))
    await stack.mend()
    await asyncio.gather(*(run.done() for run in runs))
    for run in runs:
        await assert_all_agree(run, client.follow(run))
        await assert_one_answer(stack, run)


async def test_a_killed_database_is_waited_for(stack: Stack, client: Client) -> None:
    steady = client.post(SLOW)
    restless = client.follow(steady, take=3)
    await steady.says(8)
    await stack.crash(stack.postgres)
    await assert_all_agree(steady, restless, client.follow(await steady.done()))
    await assert_one_answer(stack, steady)


async def test_a_database_that_is_away_when_the_answer_is_complete_gets_it_later(
    stack: Stack, client: Client
) -> None:
    steady = client.post("Short. [[standin: tokens=20 delay_ms=50 flush]]")
    await steady.says(8)
    async with stack.without(stack.postgres):
        await _written(stack, steady, 20)
    await assert_all_agree(steady, client.follow(await steady.done()))
    await assert_one_answer(stack, steady, words=20)


async def test_a_killed_engine_goes_on_where_it_was(stack: Stack, client: Client) -> None:
    steady = client.post(SLOW)
    await steady.says(8)
    await stack.crash(stack.temporal)
    await assert_all_agree(steady, client.follow(await steady.done()))
    await assert_one_answer(stack, steady)


async def test_a_worker_killed_after_a_tool_ran_leaves_one_result(
    stack: Stack, client: Client
) -> None:
    steady = client.post(
        "Write file notes.txt: one layer a year. [[standin: turn=2 first_delay_ms=1500]]"
    )
    await steady.sees(lambda r: _of(r, "TOOL_CALL_END") == 1, "a tool call")
    await stack.crash(stack.worker)
    await assert_all_agree(steady, client.follow(await steady.done()))
    roles = [message["role"] for message in shown(steady.frames)]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert _of(steady, "TOOL_CALL_RESULT") == 1


async def test_a_worker_killed_between_a_tools_effect_and_its_record_leaves_one_result(
    stack: Stack, client: Client
) -> None:
    """The dead worker's statement is still in the database, and lands when it is let through."""
    owner, run_id = await stack.owner(), f"run-{uuid4().hex}"
    call = tool_call_id(run_key(owner, run_id), 1, 0)
    async with connection(stack.settings.database_url) as database:
        # Whoever records this call waits for this transaction.
        await database.execute("BEGIN")
        blocking = "INSERT INTO audit (owner_id, kind, dedupe_key) VALUES ($1, 'tool_called', $2)"
        await database.execute(blocking, owner, f"tool:{call}")
        steady = client.post("Write file notes.txt: one layer a year.", run_id=run_id)
        assert steady.body is not None
        folder = stack.state.workspaces / str(session_key(owner, steady.body["threadId"]))

        async def written() -> bool:
            return (folder / "notes.txt").exists()

        await until(written, "the tool has had its effect")
        await stack.kill(stack.worker)
        await database.execute("ROLLBACK")
    await back(stack.worker)
    await assert_all_agree(steady, client.follow(await steady.done()))
    assert _of(steady, "TOOL_CALL_RESULT") == 1
    results = "SELECT count(*) FROM messages m JOIN runs r ON r.id = m.run_id WHERE r.run_id = $1"
    rows = await stack.rows(f"{results} AND m.role = 'tool'", steady.run_id)
    assert rows[0]["count"] == 1
    called = await stack.rows(
        "SELECT a.kind FROM audit a JOIN runs r ON r.id = a.run_id WHERE r.run_id = $1 "
        "AND a.tool = 'write_file'",
        steady.run_id,
    )
    assert [row["kind"] for row in called] == ["tool_called"]


def _retried(reader: Reader) -> bool:
    return any(frame.get("name") == "varve.retry" for frame in reader.frames)


def _of(reader: Reader, type: str) -> int:
    return [frame["type"] for frame in reader.frames].count(type)


async def _written(stack: Stack, run: Reader, words: int) -> None:
    """Wait until the model server has sent this many words of the run's answer."""
    assert run.body is not None
    asked = run.body["messages"][-1]["content"]

    async def now() -> bool:
        return any(r["written"] >= words for r in (await stack.upstream(asked))[-1:])

    await until(now, f"the model has said {words} words")
