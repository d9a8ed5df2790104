"""Commands that look at one database, as a shell would call them."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli.doctor import Health, examine
from cli.stack.ledger import Ledger
from cli.stack.ports import free_port
from cli.stack.state import State


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str


class Shell:
    """Runs `varve …` in a folder with an environment."""

    def __init__(self, folder: Path, **env: str) -> None:
        self._folder = folder
        clean = {k: v for k, v in os.environ.items() if not k.startswith("VARVE_")}
        self._env = {**clean, **env}

    async def __call__(self, *arguments: str) -> Done:
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).parent / "varve"),
            *arguments,
            cwd=self._folder,
            env=self._env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return Done(process.returncode or 0, out.decode(), err.decode())

    async def json(self, *arguments: str) -> Any:
        done = await self(*arguments, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)


@pytest.fixture
def varve(tmp_path: Path, database_url: str) -> Shell:
    return Shell(tmp_path, VARVE_DATABASE_URL=database_url)


async def test_a_key_s_life(varve: Shell) -> None:
    await varve.json("user", "add", "ada", "--role", "operator", "--timezone", "Europe/London")
    (user,) = await varve.json("user", "list")
    assert (user["name"], user["role"], user["timezone"]) == ("ada", "operator", "Europe/London")

    made = await varve.json("key", "create", "ada", "--scope", "runs:read", "--days", "3")
    assert made["key"].startswith(f"vk_{made['prefix']}_")
    assert (made["scopes"], made["loopback_only"]) == ("runs:read", False)

    (listed,) = await varve.json("key", "list", "--user", "ada")
    assert "key" not in listed
    (revoked,) = await varve.json("key", "revoke", made["prefix"])
    assert revoked["revoked_at"]


async def test_a_new_key_is_alone_on_standard_output(varve: Shell) -> None:
    await varve("user", "add", "ada")
    done = await varve("key", "create", "ada")
    assert done.out.startswith("vk_")
    assert len(done.out.split()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["key", "create", "nobody"], "no such user"),
        (["key", "revoke", "nothing"], "no key nothing"),
        (["user", "add", "ada", "--timezone", "Mars/Olympus"], "not a time zone"),
    ],
)
async def test_a_mistake_is_told_in_words(varve: Shell, arguments: list[str], words: str) -> None:
    done = await varve(*arguments)
    assert done.code == 1
    assert words in done.err
    assert "Traceback" not in done.err


async def test_migrating_twice_is_harmless(varve: Shell) -> None:
    assert (await varve("migrate")).code == 0
    assert (await varve("migrate")).code == 0


async def test_without_any_stack_a_command_says_how_to_get_one(tmp_path: Path) -> None:
    for arguments in (["migrate"], ["user", "list"], ["chat", "--message", "hi"]):
        done = await Shell(tmp_path)(*arguments)
        assert done.code == 1
        assert "make up" in done.err


async def test_the_file_env_is_read_and_the_environment_wins(
    tmp_path: Path, database_url: str
) -> None:
    (tmp_path / ".env").write_text(f"VARVE_DATABASE_URL={database_url}\n")
    assert await Shell(tmp_path).json("user", "list") == []
    away = f"postgresql://postgres@127.0.0.1:{free_port()}/x"
    done = await Shell(tmp_path, VARVE_DATABASE_URL=away)("migrate")
    assert done.code == 1


async def test_the_doctor_finds_nothing_wrong_where_nothing_runs(tmp_path: Path) -> None:
    found = {each["part"]: each for each in await Shell(tmp_path).json("doctor")}
    assert found["services"]["health"] == "idle"
    assert found["PostgreSQL binary"]["health"] == "ok"


async def test_the_doctor_tells_a_killed_stack_from_one_that_starts(tmp_path: Path) -> None:
    state = State(tmp_path)
    with state.lock():
        assert "starting or stopping" in (await examine(tmp_path))[-1].found
    ledger = Ledger(state.processes)
    ledger.add("this test", os.getpid(), psutil.Process().cmdline())
    assert "was killed here" in (await examine(tmp_path))[-1].found
    ledger.remove("this test")
    assert "no stack runs here" in (await examine(tmp_path))[-1].found


@pytest.mark.parametrize(
    ("name", "value"), [("VARVE_API_PORT", "eighty"), ("VARVE_DATABSE_URL", "x")]
)
async def test_up_tells_a_wrong_setting_before_it_starts_anything(
    tmp_path: Path, name: str, value: str
) -> None:
    done = await Shell(tmp_path, **{name: value})("up")
    assert done.code == 1
    assert name in done.err
    assert "is up" not in done.err
    assert "Traceback" not in done.err


async def test_the_doctor_tells_the_healthy_from_the_sick(
    tmp_path: Path,
    database_url: str,
    redis_url: str,
    temporal_address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("VARVE_DATABASE_URL", database_url)
    monkeypatch.setenv("VARVE_REDIS_URL", redis_url)
    monkeypatch.setenv("VARVE_TEMPORAL_ADDRESS", temporal_address)
    monkeypatch.setenv("VARVE_RUN_QUEUE", "a-queue-nobody-serves")
    monkeypatch.setenv("VARVE_MODEL_BASE_URL", f"{nobody}/v1")
    monkeypatch.setenv("VARVE_API_URL", nobody)
    found = {each.part: each for each in await examine(tmp_path)}
    healthy = ["database", "migrations", "Redis", "Temporal", "settings"]
    sick = ["worker", "model endpoint", "API"]
    assert [found[part].health for part in healthy] == [Health.OK] * len(healthy), found
    assert [found[part].health for part in sick] == [Health.WRONG] * len(sick), found
    assert all(found[part].remedy for part in sick)


async def test_the_doctor_does_not_advise_to_migrate_a_database_that_is_away(
    tmp_path: Path, redis_url: str, temporal_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = f"postgresql://varve:x@127.0.0.1:{free_port()}/varve"
    monkeypatch.setenv("VARVE_DATABASE_URL", away)
    monkeypatch.setenv("VARVE_REDIS_URL", redis_url)
    monkeypatch.setenv("VARVE_TEMPORAL_ADDRESS", temporal_address)
    found = {each.part: each for each in await examine(tmp_path)}
    assert found["database"].health is Health.WRONG
    assert "migrations" not in found


async def test_the_doctor_names_a_misspelt_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VARVE_DATABSE_URL", "x")
    last = (await examine(tmp_path))[-1]
    assert last.health is Health.WRONG
    assert "VARVE_DATABSE_URL" in last.found
