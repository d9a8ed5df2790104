"""Profiles in a run: resolved by the rules, frozen, bounding tools, models and cost."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from adapters.postgres.rollouts import RolloutStore
from domain.events import RunStatus, ToolFinished
from domain.runs import RunRequest
from domain.tools import Denier, ToolStatus
from tests.fixtures_standin import Standin
from tests.fixtures_worker import System, elsewhere

WRITE = '[[standin: call=write_file args={"path":"a","content":"b"}]]'


def profile(folder: Path, name: str, **parts: Any) -> Path:
    """A profile file; returns its folder."""
    folder.mkdir(exist_ok=True)
    body = {"name": name, "executor": "worker", "model": {"name": "qwen3.5-30b-a3b"}, **parts}
    (folder / f"{name}.json").write_text(json.dumps(body))
    return folder


@pytest.mark.parametrize(
    ("refused_by", "declared", "allowlist", "system_list"),
    [
        (Denier.DECLARED, ("memory_search",), ["*"], None),
        (Denier.DECLARED, (), None, "*"),
        (Denier.PROFILE, None, ["memory_search"], None),
        (Denier.PROFILE, ("*",), [], "write_file"),
        (Denier.SYSTEM, None, None, "memory_search, no_such_tool"),
        (Denier.SYSTEM, ("write_file",), ["write_file"], ""),
        (None, None, None, None),
        (None, ("*",), ["*"], "*"),
        (None, ("write_file", "no_such_tool"), ["write_file"], "write_file"),
    ],
)
async def test_a_call_runs_if_all_three_lists_admit_it_and_the_audit_names_the_one_that_did_not(
    system: System,
    tmp_path: Path,
    refused_by: Denier | None,
    declared: tuple[str, ...] | None,
    allowlist: list[str] | None,
    system_list: str | None,
) -> None:
    policy: dict[str, Any] = {} if allowlist is None else {"allowlist": allowlist}
    folder = profile(tmp_path / "profiles", "bounded", tool_policy=policy)
    async with elsewhere(system, profiles_dir=folder, tools_allow=system_list) as bounded:
        run = await bounded.run(WRITE, request=RunRequest(profile="bounded", tools=declared))
    assert run.status is RunStatus.COMPLETED
    [finished] = [e for e in await system.events(run) if isinstance(e, ToolFinished)]
    [(kind, tool, detail)] = [e for e in await system.audit(run) if e[0].startswith("tool_")]
    written = list((system.settings.workspace_dir / str(run.session_key)).glob("*"))
    if refused_by is None:
        assert (finished.status, kind, len(written)) == (ToolStatus.OK, "tool_called", 1)
    else:
        assert (finished.status, kind, written) == (ToolStatus.DENIED, "tool_denied", [])
        assert (tool, detail["refused_by"]) == ("write_file", refused_by)


async def test_a_rollout_moves_traffic_at_once_and_the_run_keeps_what_it_began_with(
    system: System, tmp_path: Path
) -> None:
    folder = profile(tmp_path / "profiles", "candidate", model={"name": "another-model"})
    async with elsewhere(system, profiles_dir=folder) as rolled:
        assert (await rolled.run("one")).profile == "chat_default"
        row = await RolloutStore(system.pool).add("candidate", 100)
        moved = await rolled.run("two")
        assert moved.profile == "candidate"
        *_, answer = await rolled.messages(moved)
        assert answer.metadata["execution_profile_name"] == "candidate"
        asked = await rolled.run("three", request=RunRequest(profile="chat_default"))
        assert asked.profile == "chat_default"
        await RolloutStore(system.pool).remove(UUID(row.rule.id))
        assert (await rolled.run("four")).profile == "chat_default"


async def test_a_model_that_stays_away_is_replaced_by_its_fallback(
    system: System, standin: Standin, tmp_path: Path
) -> None:
    model = {"name": "first-choice", "fallback": ["second-choice"]}
    folder = profile(tmp_path / "profiles", "falls", model=model)
    async with elsewhere(system, profiles_dir=folder) as falling:
        run = await falling.run(
            "[[standin: status=503 times=6 id=falls]] hello", request=RunRequest(profile="falls")
        )
    assert run.status is RunStatus.COMPLETED
    requests = (await standin.report("id=falls"))["requests"]
    names = [request["body"]["model"] for request in requests]
    assert names == ["first-choice"] * 6 + ["second-choice"]


async def test_a_run_that_has_spent_its_money_answers_without_more_tools(
    system: System, tmp_path: Path
) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text('{"qwen3.5-30b-a3b": {"input": "1000", "output": "1000"}}')
    folder = profile(tmp_path / "profiles", "poor", limits={"max_cost_usd": "0.01"})
    async with elsewhere(system, profiles_dir=folder, prices_file=prices) as poor:
        run = await poor.run(
            '[[standin: loop call=memory_search args={"query":"x"}]]',
            request=RunRequest(profile="poor"),
        )
    assert (run.status, run.limit, run.turns) == (RunStatus.COMPLETED, "max_cost_usd", 2)
    assert run.cost_micro_usd > 10_000


async def test_a_run_past_its_time_fails_as_timed_out(system: System, tmp_path: Path) -> None:
    folder = profile(tmp_path / "profiles", "hasty", limits={"timeout_s": 1})
    async with elsewhere(system, profiles_dir=folder) as hasty:
        run = await hasty.run(
            "[[standin: first_delay_ms=20000]]", request=RunRequest(profile="hasty")
        )
    assert (run.status, run.error_code, run.limit) == (RunStatus.FAILED, "timeout", "timeout_s")


async def test_a_profile_that_does_not_exist_fails_the_run_by_name(system: System) -> None:
    run = await system.run("hello", request=RunRequest(profile="nope"))
    assert (run.status, run.error_code) == (RunStatus.FAILED, "profile")
    assert "nope" in (run.error_message or "")
