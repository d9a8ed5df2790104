"""Runs under random faults lose nothing; and the judge would notice if they did."""

from pathlib import Path

import pytest

from cli.bench.chaos.judge import Verdict, judged
from cli.bench.chaos.lanes import Told
from cli.bench.chaos.scripts import Script
from cli.bench.chaos.trial import Trial, tried
from cli.bench.stage import Ground
from cli.stack.state import Endpoints, State
from tests.fixtures_worker import System

pytestmark = pytest.mark.anyio

RUNS = 60


async def test_runs_under_random_faults_lose_nothing() -> None:
    said: list[str] = []
    found = await tried(Trial(runs=RUNS, lanes=8, seed=7, within_s=420), said.append)
    assert found.verdict.breaches == {}, "\n".join(said[-20:])
    assert found.verdict.statuses.total() == found.verdict.runs == RUNS
    assert found.verdict.statuses["completed"] >= RUNS // 2
    assert found.faults.total() >= 5


def ground_of(system: System, folder: Path) -> Ground:
    state = State(folder)
    config = system.settings
    endpoints = Endpoints(
        api_url="",
        console_url=None,
        temporal_ui_url=None,
        demo_api_key="",
        temporal_address=config.temporal_address,
        database_url=config.database_url,
        redis_url=config.redis_url,
        model_base_url=config.model_base_url or "",
    )
    return Ground(state, endpoints, {}, system.pool, system.client)


DAMAGE = {
    "one end": "DELETE FROM run_events WHERE kind = 'run_finished'",
    "events numbered without a hole": "DELETE FROM run_events WHERE seq = 2",
    "the user's message once": "UPDATE messages SET role = 'system' WHERE role = 'user'",
    "one result per tool call": "UPDATE messages SET role = 'system' WHERE role = 'tool'",
    "one final answer": "UPDATE messages SET metadata = '{}' WHERE role = 'assistant'",
    "the whole answer": "UPDATE messages SET content = 'half' WHERE content <> ''",
    "readers see what is stored": "UPDATE messages SET content = 'half' WHERE content <> ''",
    "messages numbered without a hole": "UPDATE messages SET seq = 9 WHERE seq = 4",
    "no session stays busy": "UPDATE runs SET finished_at = NULL",
    "lost": "UPDATE runs SET id = gen_random_uuid()",
}


async def judge(system: System, folder: Path, told: Told) -> Verdict:
    return await judged(ground_of(system, folder), system.owner, [told])


@pytest.mark.parametrize("rule", DAMAGE)
async def test_the_judge_notices_what_is_wrong(system: System, tmp_path: Path, rule: str) -> None:
    text = "[[standin: turn=1 call=list_files args={}]] [[standin: turn=2 tokens=20]]"
    run = await system.run(text, thread_id="t")
    answer = (await system.messages(run))[-1].content
    told = Told(run.run_id, "t", Script("tool", text, 20))
    told.messages = [{"role": "assistant", "content": answer}]
    told.end = {"type": "RUN_FINISHED"}
    verdict = await judge(system, tmp_path, told)
    verdict.breaches.pop("no workflow is left", None)  # of other tests, on the same engine
    assert verdict.breaches == {}
    async with system.pool.acquire() as connection:
        await connection.execute("SET session_replication_role = replica")  # damage, not rules
        await connection.execute(DAMAGE[rule])
        await connection.execute("SET session_replication_role = origin")
    assert rule in (await judge(system, tmp_path, told)).breaches


async def test_the_judge_notices_a_tool_that_ran_twice(system: System, tmp_path: Path) -> None:
    text = '[[standin: turn=1 call=append_file args={"path":"log.txt","text":"x"}]]'
    run = await system.run(text, thread_id="t")
    told = Told(run.run_id, "t", Script("tool", text, 0, appends=True))
    log = tmp_path / "workspaces" / str(run.session_key) / "log.txt"
    log.write_text(f"{run.run_id}\n{run.run_id}\n")
    breaches = (await judge(system, tmp_path, told)).breaches
    assert "a tool that runs once ran once" in breaches
    log.write_text("")
    breaches = (await judge(system, tmp_path, told)).breaches
    assert "a tool that says ok has had its effect" in breaches
