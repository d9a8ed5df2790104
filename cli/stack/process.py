"""One server as a child process: start it, wait until it answers, stop it, say why it failed."""

import asyncio
import contextlib
import ctypes
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import psutil

from cli.stack.errors import StackError, tail

Check = Callable[[], Awaitable[object]]
"""Raises as long as the server does not answer."""

# Loaded here, because a forked process should do as little as possible before it becomes another.
_LIBC = ctypes.CDLL(None) if sys.platform.startswith("linux") else None
_PR_SET_PDEATHSIG = 1

POLL_S = 0.02
LONGEST_POLL_S = 0.25


class Child:
    """A process in a session of its own, so that Ctrl-C in a terminal reaches only its parent."""

    def __init__(
        self,
        component: str,
        log: Path,
        *,
        stop_signal: signal.Signals = signal.SIGTERM,
        stop_within_s: float = 10.0,
        remedy: str = "read the log; `varve doctor` checks every part",
    ) -> None:
        self.component = component
        self.log = log
        self.on_spawn: Callable[[int, list[str]], None] = lambda _pid, _argv: None
        self.dies_with_parent = False  # for what is worth nothing without it, like a test's server
        self._stop_signal = stop_signal
        self._stop_within_s = stop_within_s
        self._remedy = remedy
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The pid while it runs, else None."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def spawn(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> int:
        """Start it and return the pid. Output is appended to the log. Raises StackError."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.log.open("ab") as output:
                self._process = await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=None if env is None else dict(env),
                    cwd=cwd,
                    start_new_session=True,
                    preexec_fn=die_with_parent if self.dies_with_parent else None,
                )
        except OSError as error:
            raise self.error(f"cannot be started: {error}") from error
        self.on_spawn(self._process.pid, list(argv))
        return self._process.pid

    async def ready(self, check: Check, within_s: float = 30.0) -> None:
        """Wait until `check` no longer raises. Raises StackError if it exits or takes too long."""
        ended = asyncio.create_task(self.wait())
        checked = asyncio.create_task(_passes(check))
        try:
            await asyncio.wait(
                (ended, checked), timeout=within_s, return_when=asyncio.FIRST_COMPLETED
            )
            if ended.done():
                raise self.error(f"exited with {ended.result()} before it was ready")
            if not checked.done():
                raise self.error(f"does not answer after {within_s:.0f} s")
        finally:
            ended.cancel()
            checked.cancel()
            await asyncio.gather(ended, checked, return_exceptions=True)

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        assert self._process is not None, "spawn first"
        return await self._process.wait()

    async def stop(self) -> None:
        """Ask it to end, insist after a while, return when it is gone. Harmless when it is."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(self._stop_signal)
        try:
            await asyncio.wait_for(process.wait(), self._stop_within_s)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def kill(self) -> None:
        """kill -9, as a crash would."""
        process = self._process
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    def error(self, what: str) -> StackError:
        """A StackError of this component with the last lines of its log."""
        last = tail(self.log)
        return StackError(
            self.component,
            f"{what}\n{last}" if last else what,
            remedy=self._remedy,
            log=self.log,
        )


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal once its parent is gone, however that ends: for
    `preexec_fn`. Linux only; elsewhere nothing happens."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


async def _passes(check: Check) -> None:
    pause = POLL_S
    while True:
        with contextlib.suppress(Exception):  # whatever a client says of a server not yet up
            await check()
            return
        await asyncio.sleep(pause)
        pause = min(1.3 * pause, LONGEST_POLL_S)  # asking costs the starting process time


async def end(pid: int, *, within_s: float = 10.0, signal_first: int = signal.SIGTERM) -> None:
    """End a process that is not our child, politely first. Returns when it is gone."""
    try:
        process = psutil.Process(pid)
        process.send_signal(signal_first)
    except psutil.NoSuchProcess:
        return
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while _alive(process):
        if loop.time() > deadline:
            process.kill()
            deadline = loop.time() + within_s
        await asyncio.sleep(POLL_S)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
