"""`varve up` from outside: it starts, is there, survives what happens to it, leaves nothing."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli.client import AgentClient, Frame
from cli.stack.process import die_with_parent

VARVE = str(Path(sys.executable).parent / "varve")
ANY_PORTS = ("--api-port", "0")


class Up:
    """A running `varve up` in a folder, and what it has said so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder.parent / f"{folder.name}.log"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, *arguments: str) -> None:
        with self.log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *(VARVE, "up", "--state", str(self.folder), *arguments),
                env={k: v for k, v in os.environ.items() if not k.startswith("VARVE_")},
                stdout=log,
                stderr=log,
                preexec_fn=partial(die_with_parent, signal.SIGTERM),
            )

    def endpoints(self) -> dict[str, Any]:
        return json.loads((self.folder / "endpoints.json").read_text())

    async def serve(self) -> dict[str, Any]:
        """Start, and return the endpoints once they are there."""
        await self.start(*ANY_PORTS)
        await self.until("Ctrl-C stops everything")
        return self.endpoints()

    async def until(self, words: str) -> None:
        assert self.process is not None
        async with asyncio.timeout(180):
            while words not in self.log.read_text():
                assert self.process.returncode is None, self.log.read_text()
                await asyncio.sleep(0.05)

    async def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        async with asyncio.timeout(120):
            return await self.process.wait()

    def children(self) -> list[psutil.Process]:
        recorded = json.loads((self.folder / "processes.json").read_text())
        return [psutil.Process(each["pid"]) for each in recorded]

    def child(self, component: str) -> psutil.Process:
        recorded = json.loads((self.folder / "processes.json").read_text())
        return psutil.Process(next(e["pid"] for e in recorded if e["component"] == component))


@pytest.fixture
async def up(tmp_path: Path) -> AsyncGenerator[Up]:
    started = Up(tmp_path / "state")
    yield started
    if started.process is not None and started.process.returncode is None:
        await started.end()


@pytest.fixture(scope="module")
async def standing(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Up]:
    """A stack that the tests of this file share; whoever kills a part waits until it is back."""
    started = Up(tmp_path_factory.mktemp("standing") / "state")
    await started.serve()
    yield started
    assert await started.end() == 0


def alive(process: psutil.Process) -> bool:
    """Whether it runs. An orphan that nobody has collected yet does not."""
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


async def ask(endpoints: dict[str, Any], session: str, text: str, run: str) -> list[Frame]:
    async with AgentClient(endpoints["api_url"], endpoints["demo_api_key"]) as client:
        return [frame async for frame in client.run(session, text, run_id=run)]


async def test_the_smoke_test_passes_and_leaves_nothing(up: Up) -> None:
    await up.start("--smoke", "--json")
    assert up.process is not None
    assert await up.process.wait() == 0, up.log.read_text()
    assert json.loads((up.folder / "processes.json").read_text()) == []
    assert not (up.folder / "endpoints.json").exists()


async def test_a_stack_that_was_killed_is_cleared_up_and_its_data_is_there(up: Up) -> None:
    endpoints = await up.serve()
    await ask(endpoints, "s", "Hello?", "r1")
    left = up.children()
    await up.end(signal.SIGKILL)
    assert all(alive(child) for child in left)

    again = await up.serve()
    assert [child.cmdline() for child in left if alive(child)] == []
    assert "left by a stack that was killed" in up.log.read_text()
    async with AgentClient(again["api_url"], again["demo_api_key"]) as client:
        assert len((await client.history("s"))["messages"]) == 2

    mine = up.children()
    assert await up.end(signal.SIGINT) == 0
    assert not any(alive(child) for child in mine)


async def test_a_second_up_in_the_same_folder_is_refused(up: Up) -> None:
    await up.start(*ANY_PORTS)
    assert up.process is not None
    while not (up.folder / "lock").exists():
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.1)
    second = await asyncio.create_subprocess_exec(
        *(VARVE, "up", "--state", str(up.folder)), stderr=asyncio.subprocess.PIPE
    )
    _, said = await second.communicate()
    assert second.returncode == 1
    assert f"process {up.process.pid}" in " ".join(said.decode().split())
    assert await up.end() == 130  # stopped before it was ready


@pytest.mark.parametrize("component", ["worker", "API", "Valkey", "Temporal", "PostgreSQL"])
async def test_a_part_that_dies_comes_back_and_work_goes_on(component: str, standing: Up) -> None:
    standing.child(component).kill()
    await standing.until(f"{component} is back")
    frames = await ask(standing.endpoints(), f"without-{component}", "Hello?", component)
    assert frames[-1].type == "RUN_FINISHED"


async def test_chat_answers_one_message_and_goes_on_with_a_session(standing: Up) -> None:
    async def chat(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *(VARVE, "chat", "--state", str(standing.folder), *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    first = json.loads(await chat("--message", "Remember that my rock is slate.", "--json"))
    assert first["tools"][0]["name"] == "memory_write"
    assert (first["error"], first["outcome"]) == (None, "success")
    told = await chat("--session", first["session"], "--message", "What is 2+3*4?")
    assert "14" in told


async def test_chat_interrupted_stops_the_run(standing: Up) -> None:
    endpoints = standing.endpoints()
    slow = "[[standin: tokens=2000 delay_ms=20]] Hello?"
    process = await asyncio.create_subprocess_exec(
        *(VARVE, "chat", "--state", str(standing.folder)),
        *("--session", "slow", "--message", slow),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    await process.stdout.read(20)  # it is answering
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(120):
        await process.communicate()
    assert process.returncode == 130
    async with AgentClient(endpoints["api_url"], endpoints["demo_api_key"]) as client:
        assert (await client.history("slow"))["activeRunId"] is None
