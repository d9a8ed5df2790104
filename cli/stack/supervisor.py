"""Keeps parts running: starts them, starts again what dies, stops all in reverse order."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from cli.stack.errors import StackError
from cli.stack.ledger import Ledger
from cli.stack.process import Child

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
STEADY_S = 30.0  # one that ran this long starts over with the shortest pause


class Part(Protocol):
    """A server or program. Starting it again uses the same port and data."""

    component: str
    child: Child

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


class Supervisor:
    """Owns the running parts. `say` is told, in words, what it does on its own."""

    def __init__(self, ledger: Ledger, say: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._say = say
        self._parts: list[Part] = []
        self._watchers: list[asyncio.Task[None]] = []

    async def start(self, *parts: Part) -> None:
        """Start parts that don't need each other, at once. Raises the first StackError."""
        for part in parts:
            part.child.on_spawn = self._note(part)
        self._parts += parts
        starts = (self._first(part) for part in parts)
        results = await asyncio.gather(*starts, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        self._watchers += [asyncio.create_task(self._watch(part)) for part in parts]

    async def _first(self, part: Part) -> None:
        await part.start()
        self._say(f"{part.component} is up, process {part.child.pid}")

    async def stop(self) -> None:
        """Stop everything, the last started first. Also right after a start that failed."""
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        for part in reversed(self._parts):
            await part.stop()
            self._ledger.remove(part.component)
        self._parts, self._watchers = [], []

    def _note(self, part: Part) -> Callable[[int, list[str]], None]:
        return lambda pid, command: self._ledger.add(part.component, pid, command)

    async def _watch(self, part: Part) -> None:
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE_S
        while True:
            since = loop.time()
            code = await part.child.wait()
            if loop.time() - since > STEADY_S:
                pause = FIRST_PAUSE_S
            self._say(f"{part.component} ended ({_how(code)}); starting it again")
            while not await self._restarted(part, pause):
                pause = min(2 * pause, LONGEST_PAUSE_S)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def _restarted(self, part: Part, pause: float) -> bool:
        await asyncio.sleep(pause)
        try:
            await part.start()
        except StackError as error:
            await part.stop()
            self._say(f"{error}\nTrying again")
            return False
        self._say(f"{part.component} is back, process {part.child.pid}")
        return True


def _how(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
