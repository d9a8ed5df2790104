"""Tools that a person has to approve: asked, answered in every way, and run exactly as approved."""

import asyncio
import json
from random import Random
from typing import Any
from uuid import UUID

import pytest
from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from adapters.postgres.checkpoints import CheckpointFilter, CheckpointStore
from domain.checkpoints import Answer, AnswerInput, AnswerResult, Checkpoint, State, Via
from domain.events import CheckpointChanged, RunPaused, RunResumed, RunStatus, ToolFinished
from domain.runs import Run, RunRequest
from domain.tools import ToolStatus
from tests.fixtures_worker import System, elsewhere
from tests.replay.corpus import keep
from tests.workflows.test_agent_run import until

PROFILE = {
    "name": "careful",
    "executor": "worker",
    "model": {"name": "stand-in"},
    "tool_policy": {"mode": "intersection", "require_approval": ["append_file"]},
}
CAREFUL = RunRequest(inline=json.dumps(PROFILE))


def appends(*texts: str, again: bool = False) -> str:
    calls = " ".join(
        f"call=append_file args={json.dumps({'path': f'{text}.txt', 'text': text})}"
        for text in texts
    )
    return f"[[standin: {'loop ' if again else ''}{calls}]]"


async def open_ones(system: System, run: Run, count: int = 1) -> list[Checkpoint]:
    """Wait until that many questions of the run are open, and it stands still."""
    where = CheckpointFilter(system.owner, (State.OPEN,), run_key=run.key)
    store = CheckpointStore(system.pool)

    async def there() -> bool:
        paused = (await system.look(run)).status is RunStatus.WAITING
        return paused and len(await store.list(where, 50)) == count

    await until(there)
    return await store.list(where, 50)


async def say(
    system: System, run: Run, asked: Checkpoint, action: str, input: Any = None, **who: Any
) -> AnswerResult:
    drafted = await CheckpointStore(system.pool).draft_answer(
        system.owner, asked.id, actor_id=system.owner, via=Via.API, action=action, input=input
    )
    given = AnswerInput((Answer(str(asked.id), action, drafted),), Via.API, system.owner, **who)
    return await system.handle(run).execute_update("answer", given, result_type=AnswerResult)


def written(system: System, run: Run) -> dict[str, str]:
    folder = system.settings.workspace_dir / str(run.session_key)
    return {path.name: path.read_text() for path in folder.glob("*")}


async def results(system: System, run: Run) -> list[ToolFinished]:
    return [e for e in await system.events(run) if isinstance(e, ToolFinished)]


async def test_an_approved_call_runs_once_and_the_run_goes_on(system: System) -> None:
    run = await system.start(appends("one"), request=CAREFUL)
    [asked] = await open_ones(system, run)
    assert (asked.tool, asked.arguments) == ("append_file", {"path": "one.txt", "text": "one"})
    assert asked.deadline is not None
    assert written(system, run) == {}
    answer = await say(system, run, asked, "approve")
    assert answer.run_id == f"seg_{run.key.hex}_1"
    await system.handle(run).result()
    assert written(system, run) == {"one.txt": "one\n"}
    kinds = [type(e) for e in await system.events(run)]
    assert kinds.index(RunPaused) < kinds.index(RunResumed) < kinds.index(ToolFinished)
    assert (await system.look(run)).status is RunStatus.COMPLETED
    audit = [kind for kind, _, _ in await system.audit(run)]
    assert audit[:2] == ["checkpoint_opened", "checkpoint_answered"]
    await keep("approves_a_tool", system.handle(run))


async def test_a_denied_call_never_runs_and_is_not_asked_about_again(system: System) -> None:
    run = await system.start(appends("one", again=True), request=CAREFUL)
    [asked] = await open_ones(system, run)
    await say(system, run, asked, "deny", "Not today.")
    await system.handle(run).result()
    first, *others = await results(system, run)
    assert first.status is ToolStatus.DENIED
    assert "Not today." in first.content
    assert {other.status for other in others} == {ToolStatus.DENIED}
    assert len(others) >= 2
    assert written(system, run) == {}
    asked_of = [e for e in await system.events(run) if isinstance(e, CheckpointChanged)]
    assert [e.change for e in asked_of] == ["opened", "answered"]


async def test_an_approval_for_the_session_holds_for_exactly_these_arguments(
    system: System,
) -> None:
    run = await system.start(appends("one"), request=CAREFUL, thread_id="t")
    [asked] = await open_ones(system, run)
    await say(system, run, asked, "approve_session")
    await system.handle(run).result()
    again = await system.run(appends("one"), request=CAREFUL, thread_id="t")
    assert again.status is RunStatus.COMPLETED
    assert written(system, run) == {"one.txt": "one\none\n"}
    other = await system.start(appends("two"), request=CAREFUL, thread_id="t")
    await open_ones(system, other)
    elsewhere_asked = await system.start(appends("one"), request=CAREFUL)
    await open_ones(system, elsewhere_asked)


async def test_a_call_runs_with_the_arguments_that_a_person_gave_it(system: System) -> None:
    run = await system.start(appends("one"), request=CAREFUL)
    [asked] = await open_ones(system, run)
    await say(system, run, asked, "edit", {"path": "edited.txt", "text": "by a person"})
    await system.handle(run).result()
    assert written(system, run) == {"edited.txt": "by a person\n"}


@pytest.mark.parametrize(
    "edited", [{"path": "../out.txt", "text": "x"}, {"path": "a.txt", "text": "x", "more": 1}]
)
async def test_arguments_edited_into_what_is_forbidden_are_refused(
    system: System, edited: dict[str, Any]
) -> None:
    run = await system.start(appends("one"), request=CAREFUL)
    [asked] = await open_ones(system, run)
    await say(system, run, asked, "edit", edited)
    await system.handle(run).result()
    [result] = await results(system, run)
    assert result.status is ToolStatus.ERROR
    assert written(system, run) == {}


async def test_five_calls_are_answered_in_any_order_and_each_gets_its_own_answer(
    system: System,
) -> None:
    names = ("a", "b", "c", "d", "e")
    run = await system.start(appends(*names), request=CAREFUL)
    asked = await open_ones(system, run, 5)
    Random(5).shuffle(asked)
    for each in asked:
        assert each.arguments is not None
        name = each.arguments["text"]
        await say(system, run, each, "approve" if name in "ace" else "deny", name)
    await system.handle(run).result()
    assert written(system, run) == {f"{name}.txt": f"{name}\n" for name in "ace"}
    by_status = {ToolStatus.OK: 3, ToolStatus.DENIED: 2}
    found = [result.status for result in await results(system, run)]
    assert {status: found.count(status) for status in by_status} == by_status
    denied = [r.content for r in await results(system, run) if r.status is ToolStatus.DENIED]
    assert sorted(content.split(": ")[-1][0] for content in denied) == ["b", "d"]


async def test_of_fifty_answers_at_once_one_counts_and_the_others_are_told_which(
    system: System,
) -> None:
    run = await system.start(appends("one"), request=CAREFUL)
    [asked] = await open_ones(system, run)
    answers = await asyncio.gather(
        *(say(system, run, asked, "approve") for _ in range(50)), return_exceptions=True
    )
    # Of the others some are told by the run, some find that it has ended: the row says who won.
    won = [answer for answer in answers if isinstance(answer, AnswerResult)]
    refused = [a.cause for a in answers if isinstance(a, WorkflowUpdateFailedError)]
    late = [answer for answer in answers if isinstance(answer, RPCError)]
    assert len(won) + len(refused) + len(late) == 50
    assert len(won) <= 1
    for error in refused:
        assert isinstance(error, ApplicationError)
        assert error.type == "checkpoint-answered"
        [refusal] = error.details
        assert (refusal["action"], UUID(refusal["by"])) == ("approve", system.owner)
    await system.handle(run).result()
    assert written(system, run) == {"one.txt": "one\n"}
    counted = await system.pool.fetchval("SELECT count(*) FROM checkpoints WHERE state='answered'")
    assert counted == 1


async def test_calls_that_need_no_approval_are_not_held_up(system: System) -> None:
    calls = (
        '[[standin: call=append_file args={"path":"a","text":"a"} '
        'call=write_file args={"path":"b","content":"b"} call=list_files args={}]]'
    )
    run = await system.start(calls, request=CAREFUL)
    [asked] = await open_ones(system, run)
    assert [r.name for r in await results(system, run)] == ["write_file", "list_files"]
    await say(system, run, asked, "approve")
    await system.handle(run).result()
    assert written(system, run) == {"a": "a\n", "b": "b"}


async def test_overwriting_a_file_is_asked_about_and_silence_refuses_it(system: System) -> None:
    await system.run("write file a.txt: first", thread_id="t")
    short = json.dumps({"high_risk": {"deadline_s": 0.4}})
    async with quickly(system, short) as hurried:
        run = await hurried.run("write file a.txt: second", thread_id="t")
        assert written(hurried, run) == {"a.txt": "first"}
        [result] = await results(hurried, run)
        assert (result.status, "in time" in result.content) == (ToolStatus.DENIED, True)
        changes = [e.change for e in await hurried.events(run) if isinstance(e, CheckpointChanged)]
        assert changes == ["opened", "expired"]
        await keep("nobody_approves", hurried.handle(run))


async def test_an_interrupt_ends_the_wait_and_its_questions(system: System) -> None:
    run = await system.start(appends("one"), request=CAREFUL)
    [asked] = await open_ones(system, run)
    await system.handle(run).signal("interrupt", "Enough.")
    await system.handle(run).result()
    assert (await system.look(run)).status is RunStatus.INTERRUPTED
    after = await CheckpointStore(system.pool).get(system.owner, asked.id)
    assert after.state is State.CANCELLED
    with pytest.raises(Exception, match="completed"):
        await say(system, run, asked, "approve")
    assert written(system, run) == {}


def quickly(system: System, checkpoints: str) -> Any:
    from adapters.asking import Asking

    return elsewhere(system, checkpoints=Asking.model_validate_json(checkpoints))
