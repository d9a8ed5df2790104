"""`varve up` as it is used: its supervisor brings back what dies, and a second one takes over."""

import json
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import psutil
import pytest

from cli.stack.binaries import script
from cli.stack.ledger import Ledger
from cli.stack.ports import free_port
from cli.stack.process import Child
from cli.stack.state import State
from tests.e2e.client import Client, assert_all_agree
from tests.e2e.stack import API, Tally

pytestmark = pytest.mark.anyio

SLOW = "Tell me about varves. [[standin: tokens=60 delay_ms=50 flush]]"


class Up:
    """One `varve up` on a folder and port of its own."""

    def __init__(self, folder: Path) -> None:
        self.state = State(folder)
        self.port = free_port()
        self._child = Child("varve up", folder / "up.log", stop_within_s=60)

    async def start(self) -> None:
        arguments = ("up", "--state", str(self.state.folder), "--api-port", str(self.port))
        await self._child.spawn([str(script("varve", "varve")), *arguments])
        await self._child.ready(self._ready, within_s=60)

    async def stop(self) -> None:
        await self._child.stop()

    async def kill(self) -> None:
        await self._child.kill()
        self.state.forget_endpoints()  # so that `start` waits for the new ones

    def kill_parts(self) -> int:
        """kill -9 to every process that it started; how many there were."""
        pids = [entry["pid"] for entry in json.loads(self.state.processes.read_text())]
        for pid in pids:
            psutil.Process(pid).send_signal(signal.SIGKILL)
        return len(pids)

    async def _ready(self) -> None:
        assert self.state.endpoints() is not None


@pytest.fixture
async def up(servers_dir: Path) -> AsyncGenerator[Up]:
    up = Up(servers_dir / "up")
    try:
        await up.start()
        yield up
    finally:
        await up.stop()
        await Ledger(up.state.processes).clear()  # orphans, where the test failed half-way


async def test_every_process_killed_at_once_and_then_the_supervisor_too(
    up: Up, tally: Tally
) -> None:
    endpoints = up.state.endpoints()
    assert endpoints is not None
    client = Client(endpoints.api_url + API, endpoints.demo_api_key, tally)
    first = client.post(SLOW)
    await first.says(8)
    tally.faults["kill -9 of all six processes"] += 1
    assert up.kill_parts() == 6
    await assert_all_agree(first)

    second = client.post(SLOW)
    await second.says(8)
    tally.faults["kill -9 of `varve up` and all six"] += 1
    await up.kill()
    up.kill_parts()
    await up.start()
    await assert_all_agree(second)
    await client.close()
