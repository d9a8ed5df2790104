"""The supervisor and its ledger: what dies comes back, what is left over is cleared, no more."""

import asyncio
import json
import sys
from pathlib import Path

import psutil
import pytest
from redis.asyncio import Redis

from cli.stack.errors import StackError
from cli.stack.ledger import Ledger
from cli.stack.process import Child
from cli.stack.supervisor import Supervisor
from cli.stack.valkey import Valkey

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


class Sleeper:
    """A part that is ready at once and does nothing; `order` is told when it stops."""

    def __init__(self, component: str, folder: Path, order: list[str]) -> None:
        self.component = component
        self.child = Child(component, folder / f"{component}.log")
        self._order = order

    async def start(self) -> None:
        await self.child.spawn(SLEEPER)

    async def stop(self) -> None:
        self._order.append(self.component)
        await self.child.stop()


class Broken(Sleeper):
    async def start(self) -> None:
        raise self.child.error("does not want to")


async def start_alone(part: Sleeper, ledger: Ledger) -> None:
    """Start and note it, with no supervisor that would bring it back: that one was killed."""
    part.child.on_spawn = lambda pid, command: ledger.add(part.component, pid, command)
    await part.start()


async def until_said(said: list[str], word: str) -> None:
    async with asyncio.timeout(20):
        while not any(word in text for text in said):
            await asyncio.sleep(0.02)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "processes.json")


async def test_a_server_that_is_killed_comes_back_on_its_port(
    tmp_path: Path, ledger: Ledger
) -> None:
    said: list[str] = []
    supervisor = Supervisor(ledger, said.append)
    server = Valkey(tmp_path / "valkey", tmp_path / "valkey.log")
    await supervisor.start(server)
    url, first = server.url, server.child.pid
    await server.child.kill()
    await until_said(said, "is back")
    async with Redis.from_url(url) as client:
        await client.set("still", "here")
    assert server.child.pid not in (None, first)
    await supervisor.stop()


async def test_what_was_started_last_is_stopped_first(tmp_path: Path, ledger: Ledger) -> None:
    order: list[str] = []
    supervisor = Supervisor(ledger, lambda _: None)
    await supervisor.start(Sleeper("first", tmp_path, order))
    await supervisor.start(Sleeper("second", tmp_path, order), Sleeper("third", tmp_path, order))
    await supervisor.stop()
    assert order == ["third", "second", "first"]
    assert json.loads((tmp_path / "processes.json").read_text()) == []


async def test_a_start_that_fails_leaves_nothing_running_once_stopped(
    tmp_path: Path, ledger: Ledger
) -> None:
    good = Sleeper("good", tmp_path, [])
    supervisor = Supervisor(ledger, lambda _: None)
    with pytest.raises(StackError, match="does not want to"):
        await supervisor.start(good, Broken("bad", tmp_path, []))
    assert good.child.pid is not None
    await supervisor.stop()
    assert good.child.pid is None


async def test_what_a_killed_stack_left_is_ended(tmp_path: Path, ledger: Ledger) -> None:
    left = Sleeper("left", tmp_path, [])
    await start_alone(left, ledger)
    cleared = await Ledger(tmp_path / "processes.json").clear()
    assert [entry.component for entry in cleared] == ["left"]
    assert left.child.pid is None or not psutil.pid_exists(left.child.pid)


@pytest.mark.parametrize("change", [{"started": 1.0}, {"command": ["something", "else"]}])
async def test_a_process_that_merely_has_the_same_pid_is_left_alone(
    change: dict[str, object], tmp_path: Path, ledger: Ledger
) -> None:
    bystander = Sleeper("bystander", tmp_path, [])
    await start_alone(bystander, ledger)
    path = tmp_path / "processes.json"
    path.write_text(json.dumps([{**json.loads(path.read_text())[0], **change}]))
    assert await Ledger(path).clear() == []
    assert bystander.child.pid is not None
    await bystander.stop()


async def test_a_ledger_cut_short_by_a_crash_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "processes.json"
    path.write_text('[{"component": "Valk')
    assert await Ledger(path).clear() == []
