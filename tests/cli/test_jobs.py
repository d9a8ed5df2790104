"""`varve jobs`, as a shell would call it: against the API, and against database and engine."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from temporalio.client import Client
from temporalio.service import RPCError
from typer.testing import CliRunner, Result

from cli.main import app
from cli.stack.ports import free_port
from domain.identity import UserRole
from domain.jobs import schedule_id
from tests.cli.test_commands import Shell as Process
from tests.fixtures_api import Api, Person, serving_api
from tests.fixtures_worker import System


class Shell:
    """Runs `varve …` in this process, for one person."""

    def __init__(self, folder: Path, **env: str) -> None:
        self._folder = folder
        self.env = env

    async def __call__(self, *arguments: str) -> Result:
        given = [*arguments, "--state", str(self._folder)]
        return await asyncio.to_thread(CliRunner(env=self.env).invoke, app, given)

    async def json(self, *arguments: str) -> Any:
        done = await self(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


def shell_of(api: Api, person: Person, folder: Path) -> Shell:
    return Shell(
        folder,
        VARVE_API_URL=api.base_url.removesuffix("/api/v1/agent"),
        VARVE_API_KEY=person.key,
        VARVE_DATABASE_URL=api.settings.database_url,
        VARVE_TEMPORAL_ADDRESS=api.settings.temporal_address,
        VARVE_RUN_QUEUE=api.settings.run_queue,
    )


@pytest.fixture
async def served(system: System) -> AsyncGenerator[Api]:
    async with serving_api(system.settings, system.pool) as api:
        yield api


async def test_a_job_s_life(api: Api, tmp_path: Path) -> None:
    varve = shell_of(api, await api.person("ann"), tmp_path)
    made = await varve.json(
        *("jobs", "create", "--title", "News", "--prompt", "What is new?", "--type", "weekly"),
        *("--weekday", "1", "--at", "07:30", "--zone", "Europe/London", "--tool", "memory_search"),
    )
    assert made["schedule_in_sync"] is True
    listed = await varve.json("jobs", "list")
    assert listed[0]["id"] == made["id"]
    assert [job["builtin"] for job in listed] == [None, "daily_memory"]

    part = made["id"][:13]
    shown = await varve("jobs", "show", part)
    assert "weekly 07:30 on Mondays Europe/London" in shown.stdout
    changed = await varve.json("jobs", "set", part, "--prompt", "Anything?", "--at", "08:00")
    assert changed["config"] == {"prompt": "Anything?", "tools": ["memory_search"]}
    assert (changed["run_at"], changed["weekday"]) == ("08:00", 1)
    assert (await varve.json("jobs", "pause", part))["status"] == "paused"
    assert (await varve.json("jobs", "list", "--status", "paused"))[0]["id"] == made["id"]
    assert (await varve.json("jobs", "resume", part))["status"] == "active"
    assert (await varve.json("jobs", "delete", made["id"]))["status"] == "deleted"
    assert (await varve("jobs", "show", made["id"])).exit_code == 4


async def test_a_job_is_run_now_and_its_past_dates_too(served: Api, tmp_path: Path) -> None:
    varve = shell_of(served, await served.person("ann"), tmp_path)
    (slot,) = await varve.json("jobs", "trigger", "daily_memory", "--wait")
    assert (slot["status"], slot["attempt"]) == ("nothing_new", 1)
    again = await varve("jobs", "trigger", "daily_memory")
    assert again.exit_code == 3
    assert slot["slot"] in again.stderr
    (slot,) = await varve.json("jobs", "trigger", "daily_memory", "--again", "--wait")
    assert slot["attempt"] == 2

    asked = await varve.json("jobs", "backfill", "daily_memory", "2026-11-01", "2026-11-01")
    assert asked == {"requested": ["2026-11-01"], "running": [], "done": []}
    async with asyncio.timeout(30):
        while len(runs := await varve.json("jobs", "runs", "daily_memory")) < 2:
            await asyncio.sleep(0.1)
    assert [run["slot"] for run in runs] == [slot["slot"], "2026-11-01"]
    assert slot["slot"] in (await varve("jobs", "runs", "daily_memory")).stdout


async def test_an_operator_acts_for_an_owner(api: Api, tmp_path: Path) -> None:
    ann, olga = await api.person("ann"), await api.person("olga", UserRole.OPERATOR)
    for_ann = ("--owner", str(ann.user.id))
    varve = shell_of(api, olga, tmp_path)
    paused = await varve.json("jobs", "pause", "daily_memory", *for_ann)
    assert (paused["owner_id"], paused["status"]) == (str(ann.user.id), "paused")
    assert (await varve.json("jobs", "show", "daily_memory"))["status"] == "active"


async def test_a_mistake_is_told_in_words(api: Api, tmp_path: Path) -> None:
    varve = shell_of(api, await api.person("ann"), tmp_path)
    for arguments, code, words in (
        (["show", "zzz"], 1, "No job begins with"),
        (["set", "daily_memory", "--zone", "Mars/Olympus"], 1, "timezone"),
        (["set", "daily_memory", "--profile", "missing.json"], 1, "missing.json"),
        (["set", "daily_memory"], 2, "what is to be different"),
        (["backfill", "daily_memory", "2026-11-02", "2026-11-01"], 1, "ends before"),
    ):
        done = await varve("jobs", *arguments)
        assert (done.exit_code, words in done.stderr) == (code, True), done.output
    varve.env["VARVE_API_URL"] = f"http://127.0.0.1:{free_port()}"
    assert "does not answer" in (await varve("jobs", "list")).stderr


async def test_reconcile_mends_what_the_engine_lost(
    api: Api, tmp_path: Path, temporal: Client
) -> None:
    ann = await api.person("ann")
    varve = shell_of(api, ann, tmp_path)
    (job,) = await varve.json("jobs", "list")
    handle = temporal.get_schedule_handle(schedule_id(UUID(job["id"])))
    with pytest.raises(RPCError):
        await handle.describe()
    counts = await Process(tmp_path, **varve.env).json("jobs", "reconcile")
    assert (counts["jobs"], counts["created"], counts["failed"]) == (1, 1, 0)
    assert (await handle.describe()).schedule.spec.time_zone_name == "Asia/Shanghai"
    assert "jobs 1" in (await varve("jobs", "reconcile")).stdout

    varve.env["VARVE_TEMPORAL_ADDRESS"] = f"127.0.0.1:{free_port()}"
    away = await varve("jobs", "reconcile")
    assert (away.exit_code, "VARVE_TEMPORAL_ADDRESS" in away.stderr) == (1, True)


async def test_migrate_rewrites_old_jobs_and_finds_none_the_second_time(
    api: Api, tmp_path: Path
) -> None:
    ann = await api.person("ann")
    old = {
        "name": "old",
        "executor": "worker",
        "model": {"name": "m"},
        "enable_router": False,
        "history_policy": {"window": "today_yesterday"},
    }
    await api.pool.execute(
        "UPDATE automation_jobs SET execution_profile = $1 WHERE owner_id = $2",
        *(json.dumps(old), ann.user.id),
    )
    varve = shell_of(api, ann, tmp_path)
    assert await varve.json("jobs", "migrate") == {"changed": 1, "unreadable": 0}
    assert await varve.json("jobs", "migrate", "--batch", "1") == {"changed": 0, "unreadable": 0}


async def test_a_new_user_has_a_schedule_at_once_or_it_is_told(
    api: Api, tmp_path: Path, temporal: Client
) -> None:
    varve = shell_of(api, await api.person("ann"), tmp_path)
    await varve.json("user", "add", "bea")
    id = await api.pool.fetchval(
        "SELECT j.id FROM automation_jobs j JOIN users u ON u.id = owner_id WHERE u.name = 'bea'"
    )
    await temporal.get_schedule_handle(schedule_id(id)).describe()

    varve.env["VARVE_TEMPORAL_ADDRESS"] = f"127.0.0.1:{free_port()}"
    done = await varve("user", "add", "cyd")
    assert (done.exit_code, "engine does not answer" in done.stderr) == (0, True)
    count = "SELECT count(*) FROM automation_jobs j JOIN users u ON u.id = owner_id WHERE name = $1"
    assert await api.pool.fetchval(count, "cyd") == 1
