"""The run from begin to end, through the production worker, against the stand-in model."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError

from activities.start import start_run
from adapters.postgres.runs import RunStore
from domain.events import (
    Notice,
    RunFinished,
    RunStarted,
    RunStatus,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
)
from domain.messages import Role
from domain.runs import Run, RunRequest
from domain.tools import MAX_CALLS, ToolStatus
from tests.fixtures_worker import System
from tests.people import new_run
from tests.replay.corpus import keep


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.02)


async def known_to_the_engine(system: System, run: Run) -> bytes:
    """A run's history as it is stored; its JSON form would hide payloads behind base64."""
    history = await system.handle(run).fetch_history()
    return b"".join(event.SerializeToString() for event in history.events)


async def test_answers_without_tools(system: System) -> None:
    run = await system.run("hello there")
    assert run.status is RunStatus.COMPLETED
    kinds = [type(event) for event in await system.events(run)]
    assert kinds == [RunStarted, TurnStarted, TurnCompleted, RunFinished]
    question, answer = await system.messages(run)
    assert (question.content, answer.role) == ("hello there", Role.ASSISTANT)
    assert "hello there" in answer.content
    assert answer.metadata["execution_profile_name"] == "chat_default"
    assert run.usage.input_tokens > 0
    await keep("answers_without_tools", system.handle(run))


async def test_a_tool_call_runs_and_its_result_is_answered_from(system: System) -> None:
    run = await system.run("remember that my name is Ada")
    assert run.status is RunStatus.COMPLETED
    roles = [message.role for message in await system.messages(run)]
    assert roles == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]
    fact = await system.pool.fetchrow("SELECT owner_id, value, source_run_id FROM facts")
    assert fact is not None
    assert (fact["owner_id"], fact["source_run_id"]) == (system.owner, run.key)
    assert "Ada" in fact["value"]
    await keep("calls_a_tool", system.handle(run))


async def test_calls_of_one_turn_each_get_one_result(system: System) -> None:
    run = await system.run(
        '[[standin: two_calls call=list_files args={} call=memory_search args={"query":"x"}]]'
    )
    finished = [e for e in await system.events(run) if isinstance(e, ToolFinished)]
    assert sorted(e.name for e in finished) == ["list_files", "memory_search"]
    assert {e.status for e in finished} == {ToolStatus.OK}
    await keep("calls_two_tools", system.handle(run))


async def test_a_denied_call_is_answered_and_audited_with_the_list(system: System) -> None:
    run = await system.run(
        '[[standin: call=write_file args={"path":"a","content":"b"}]]',
        request=RunRequest(tools=("memory_search",)),
    )
    assert run.status is RunStatus.COMPLETED
    [denied] = [e for e in await system.events(run) if isinstance(e, ToolFinished)]
    assert denied.status is ToolStatus.DENIED
    [entry] = [entry for entry in await system.audit(run) if entry[0] == "tool_denied"]
    assert entry[1] == "write_file"
    assert entry[2]["refused_by"] == "declared"
    assert len(entry[2]["request_digest"]) == 64
    await keep("denies_a_tool", system.handle(run))


async def test_malformed_arguments_come_back_to_the_model(system: System) -> None:
    run = await system.run('[[standin: bad_args call=memory_search args={"query":"x"}]]')
    [failed] = [e for e in await system.events(run) if isinstance(e, ToolFinished)]
    assert failed.status is ToolStatus.ERROR
    assert run.status is RunStatus.COMPLETED


async def test_a_permanent_model_error_fails_the_run_in_words(system: System) -> None:
    run = await system.start("[[standin: status=401]]")
    with pytest.raises(WorkflowFailureError):
        await system.handle(run).result()
    after = await system.look(run)
    assert (after.status, after.error_code) == (RunStatus.FAILED, "authentication")
    last = (await system.events(run))[-1]
    assert isinstance(last, RunFinished)
    assert last.message
    described = await system.handle(run).describe()
    assert described.status is WorkflowExecutionStatus.FAILED
    await keep("fails_for_good", system.handle(run))


async def test_a_transient_model_error_is_retried(system: System) -> None:
    run = await system.run("[[standin: status=503 times=2 id=retried]] hello")
    assert run.status is RunStatus.COMPLETED
    started = [e for e in await system.events(run) if isinstance(e, TurnStarted)]
    assert [e.attempt for e in started] == [1, 2, 3]
    assert len(await system.messages(run)) == 2


async def test_a_call_cut_in_the_middle_is_superseded(system: System) -> None:
    run = await system.run("[[standin: cut_after=5 tokens=20 flush times=1 id=cut]]")
    first, second = [e for e in await system.events(run) if isinstance(e, TurnStarted)]
    assert second.supersedes == first.message_id
    _, answer = await system.messages(run)
    assert answer.id == second.message_id


async def test_the_last_turn_has_no_tools_and_says_which_limit(system: System) -> None:
    run = await system.run('[[standin: loop call=memory_search args={"query":"x"}]]')
    assert (run.status, run.limit, run.turns) == (RunStatus.COMPLETED, "max_turns", 8)
    *_, answer = await system.messages(run)
    assert answer.role is Role.ASSISTANT
    assert answer.tool_calls == ()


async def test_an_interrupt_keeps_the_partial_text(system: System) -> None:
    run = await system.start("[[standin: tokens=400 delay_ms=20 flush]]")

    async def speaking() -> bool:
        report = [e for e in await system.events(run) if isinstance(e, TurnStarted)]
        return bool(report)

    await until(speaking)
    await asyncio.sleep(1)
    await system.handle(run).signal("interrupt", "enough")
    result = await system.handle(run).result()
    assert result.status is RunStatus.INTERRUPTED
    *_, partial = await system.messages(run)
    assert partial.metadata["finish_reason"] == "interrupted"
    assert partial.content
    assert (await system.look(run)).error_message == "enough"
    await keep("interrupted", system.handle(run))


async def test_an_interrupt_before_anything_is_kept(system: System) -> None:
    run = await system.start("[[standin: first_delay_ms=20000]]")
    await system.handle(run).signal("interrupt", "never mind")
    await system.handle(run).signal("interrupt", "twice")
    result = await system.handle(run).result()
    assert result.status is RunStatus.INTERRUPTED
    assert len(await system.messages(run)) == 1


async def test_a_cancelled_workflow_ends_its_run(system: System) -> None:
    run = await system.start("[[standin: first_delay_ms=20000]]")
    await system.handle(run).cancel()
    with pytest.raises(WorkflowFailureError):
        await system.handle(run).result()
    assert (await system.look(run)).status is RunStatus.INTERRUPTED


async def test_a_spent_token_budget_is_announced_and_ends_the_tools(system: System) -> None:
    big = "word " * 9_000
    write = '{"path":"big.txt","content":"' + big + '"}'
    thread = "budget"
    await system.run(f"[[standin: call=write_file args={write}]]", thread_id=thread)
    call = 'call=read_file args={"path":"big.txt"}'
    run = await system.run(f"[[standin: loop {' '.join([call] * 6)}]]", thread_id=thread)
    assert (run.status, run.limit) == (RunStatus.COMPLETED, "turn_budget_tokens")
    assert any(isinstance(e, Notice) for e in await system.events(run))


async def test_history_holds_ids_and_no_text(system: System) -> None:
    run = await system.run("remember that my secret is XYZZY-42")
    known = await known_to_the_engine(system, run)
    assert str(run.key).encode() in known
    assert b"XYZZY" not in known


async def test_a_workflow_without_its_run_is_over_before_the_id_comes_again(system: System) -> None:
    new = new_run(system.owner, "hello", run_id="again")
    store = RunStore(system.pool)
    accepted = await store.accept(new)
    await store.withdraw(accepted.run.key)  # the engine's answer was lost, not the request
    await start_run(system.client, accepted.run, system.settings.run_queue)
    with pytest.raises(WorkflowFailureError):
        async with asyncio.timeout(10):
            await system.handle(accepted.run).result()
    run = (await store.accept(new)).run
    await start_run(system.client, run, system.settings.run_queue)
    await system.handle(run).result()
    assert (await system.look(run)).status is RunStatus.COMPLETED


async def test_of_a_made_up_tool_name_the_engine_is_told_the_beginning(system: System) -> None:
    name = "n" * 1_000
    run = await system.run(f"[[standin: call={name} args={{}}]]")
    calls = [call.name for message in await system.messages(run) for call in message.tool_calls]
    assert (run.status, calls) == (RunStatus.COMPLETED, [name])
    known = await known_to_the_engine(system, run)
    assert name[:64].encode() in known
    assert name[:65].encode() not in known


async def test_of_too_many_calls_in_one_turn_the_rest_is_answered_with_an_error(
    system: System,
) -> None:
    calls = " ".join(["call=list_files args={}"] * (MAX_CALLS + 2))
    run = await system.run(f"[[standin: {calls}]]")
    assert run.status is RunStatus.COMPLETED
    results = [m.content for m in await system.messages(run) if m.role is Role.TOOL]
    assert results[:MAX_CALLS] == ["[no files]"] * MAX_CALLS
    refused = [json.loads(result) for result in results[MAX_CALLS:]]
    assert [result["status"] for result in refused] == ["error"] * 2
    assert str(MAX_CALLS) in refused[0]["reason"]
