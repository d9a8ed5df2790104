"""Which processes we started, on disk, so that a later start can clear up after a kill -9."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from cli.stack.process import end
from cli.stack.state import write_private

SLACK_S = 2.0  # a start time is worked out from the boot time, which moves when a clock is set


@dataclass(frozen=True, slots=True)
class Entry:
    """Enough to recognise a process again: a pid alone may by now be somebody else's."""

    component: str
    pid: int
    started: float  # Unix time, s
    command: list[str]


class Ledger:
    """The processes of one state folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, Entry] = {}

    def add(self, component: str, pid: int, command: list[str]) -> None:
        """Note a process that was just started; it replaces the component's earlier one."""
        with suppress(psutil.NoSuchProcess):
            started = psutil.Process(pid).create_time()
            self._entries[component] = Entry(component, pid, started, command)
            self._write()

    def remove(self, component: str) -> None:
        if self._entries.pop(component, None):
            self._write()

    def left(self) -> list[Entry]:
        """What is noted and still runs."""
        return [entry for entry in self._read() if _is_alive(entry)]

    async def clear(self) -> list[Entry]:
        """End what an earlier stack left running, newest first; returns what that was."""
        found = self.left()
        for entry in reversed(found):
            await end(entry.pid)
        self._path.unlink(missing_ok=True)
        return found

    def _read(self) -> list[Entry]:
        try:
            return [Entry(**fields) for fields in json.loads(self._path.read_text())]
        except (FileNotFoundError, ValueError, TypeError):
            return []

    def _write(self) -> None:
        write_private(self._path, json.dumps([asdict(e) for e in self._entries.values()]))


def _is_alive(entry: Entry) -> bool:
    """Whether that very process still runs. A launcher that became its program shows its tail."""
    try:
        process = psutil.Process(entry.pid)
        command = process.cmdline()
        same_start = abs(process.create_time() - entry.started) < SLACK_S
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
    return bool(command) and same_start and entry.command[-len(command) :] == command
