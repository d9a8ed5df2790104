"""A whole Varve in separate processes whose parts can be killed and started one by one."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2

from adapters import settings
from adapters.postgres.pool import Row
from adapters.settings import Settings
from adapters.temporal import connect, ensure_search_attributes
from cli.stack.demo import ensure_demo
from cli.stack.errors import StackError
from cli.stack.migrate import migrate
from cli.stack.ports import HOST, free_port
from cli.stack.postgres import Postgres, connection
from cli.stack.program import Program, answers, polls
from cli.stack.state import State
from cli.stack.supervisor import Part
from cli.stack.temporal import Temporal
from cli.stack.valkey import Valkey

API = "/api/v1/agent"
PATIENCE_S = 60.0


@dataclass(slots=True)
class Tally:
    """What a session of tests did, to be told at its end."""

    faults: Counter[str] = field(default_factory=Counter[str])
    runs: int = 0
    readers: int = 0
    reconnects: int = 0
    events: int = 0
    conversations: int = 0  # of readers, each compared with PostgreSQL

    def lines(self) -> list[str]:
        faults = ", ".join(f"{count} × {name}" for name, count in sorted(self.faults.items()))
        return [
            f"{sum(self.faults.values())} faults: {faults}",
            f"{self.runs} runs, {self.readers} readers, {self.reconnects} reconnects, "
            f"{self.events} events read, {self.conversations} conversations compared",
        ]


class Stack:
    """PostgreSQL, Valkey, Temporal, stand-in model, worker and API, each a process of its own."""

    def __init__(self, folder: Path, tally: Tally) -> None:
        self.tally = tally
        self.state = State(folder)
        self.state.prepare()
        secrets, data = self.state.passwords(), self.state.data
        log = self.state.log
        self.postgres = Postgres(data / "pg", log("pg"), password=secrets.postgres)
        self.valkey = Valkey(data / "valkey", log("valkey"), password=secrets.valkey)
        self.temporal = Temporal(data / "temporal", log("temporal"))
        port = free_port()
        self.standin_url = f"http://{HOST}:{port}"
        self.standin = Program(
            "stand-in model",
            "standin",
            log("standin"),
            check=answers(f"{self.standin_url}/health"),
            arguments=("--host", HOST, "--port", str(port)),
        )
        self._api_port = free_port()
        self._started: list[Part] = []

    async def start(self) -> None:
        """Everything up and ready for a chat turn."""
        await self._up(self.postgres, self.valkey, self.temporal, self.standin)
        self.settings: Settings = settings.load({}, **self._environment())
        await migrate(self.settings.database_url)
        await ensure_search_attributes(await connect(self.temporal.address, "default"))
        self.key = (await ensure_demo(self.settings.database_url, self.state)).key
        self.api_url = f"http://{HOST}:{self.settings.api_port}{API}"
        env = {f"VARVE_{name.upper()}": value for name, value in self._environment().items()}
        address, queue = self.temporal.address, self.settings.run_queue
        self.worker = Program(
            "worker",
            "workers.agent",
            self.state.log("worker"),
            check=polls(address, "default", queue),
            env=env,
        )
        ready = answers(f"{self.api_url}/health/ready")
        self.api = Program("API", "api", self.state.log("api"), check=ready, env=env)
        await self._up(self.worker, self.api)

    async def stop(self) -> None:
        for part in reversed(self._started):
            await part.stop()

    async def mend(self) -> None:
        """Start what an earlier test left dead."""
        for part in self._started:
            if part.child.pid is None:
                await back(part)

    async def kill(self, part: Part) -> None:
        """kill -9."""
        assert part.child.pid is not None, f"{part.component} is dead already"
        self.tally.faults[f"kill -9 {part.component}"] += 1
        await part.child.kill()

    async def crash(self, part: Part) -> None:
        """kill -9, and at once another."""
        await self.kill(part)
        await back(part)

    @asynccontextmanager
    async def without(self, part: Part) -> AsyncGenerator[None]:
        """Inside: dead. Afterwards: back."""
        await self.kill(part)
        try:
            yield
        finally:
            await back(part)

    async def rows(self, sql: str, *arguments: object) -> list[Row]:
        """What the database itself has."""
        async with connection(self.settings.database_url) as opened:
            return await opened.fetch(sql, *arguments)

    async def owner(self) -> UUID:
        return (await self.rows("SELECT id FROM users WHERE name = 'demo'"))[0]["id"]

    async def upstream(self, contains: str) -> list[dict[str, Any]]:
        """Requests that the model server got whose body contains this."""
        async with httpx2.AsyncClient() as http:
            url = f"{self.standin_url}/control/requests"
            return (await http.get(url, params={"contains": contains})).json()["requests"]

    async def _up(self, *parts: Part) -> None:
        self._started += parts
        for part in parts:
            part.child.dies_with_parent = True
        await asyncio.gather(*(part.start() for part in parts))

    def _environment(self) -> dict[str, str]:
        """Production's defaults but for a shorter wait for a silent worker."""
        return {
            "database_url": self.postgres.url_of("varve"),
            "redis_url": self.valkey.url,
            "temporal_address": self.temporal.address,
            "model_base_url": f"{self.standin_url}/v1",
            "workspace_dir": str(self.state.workspaces),
            "api_port": str(self._api_port),
            "heartbeat_timeout_s": "2",
            "retry_s": "0.2",
        }


async def back(part: Part) -> None:
    """Start a part again, more than once if need be, as the supervisor does."""
    for attempt in range(5):
        try:
            await part.start()
            return
        except StackError:
            if attempt == 4:
                raise
            await part.stop()


async def until(
    true: Callable[[], Awaitable[object]], what: str, within_s: float = PATIENCE_S
) -> None:
    """Wait until this holds; fails saying what did not happen."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not await true():
        assert loop.time() < deadline, f"after {within_s:.0f} s still not: {what}"
        await asyncio.sleep(0.05)


def parsed(row: Row, column: str) -> Any:
    return json.loads(row[column])
