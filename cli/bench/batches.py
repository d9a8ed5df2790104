"""Playing runs a few at a time, and the processor time that they cost whom."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import psutil

Play = Callable[[], Awaitable[float]]
"""Plays one run and returns its seconds."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Seconds: of each run, of all together, CPU of the subject's own processes, CPU of servers."""

    walls: tuple[float, ...]
    elapsed: float
    cpu: float
    servers_cpu: float


class Subject(Protocol):
    """Something whose runs can be played in batches."""

    name: str

    async def batch(self, runs: int, concurrency: int) -> Batch: ...


async def lanes(
    play: Play, runs: int, concurrency: int, spread_s: float = 0.0
) -> tuple[tuple[float, ...], float]:
    """(seconds of each run, of all). A new run begins when one ends; the first ones begin within
    `spread_s`, evenly, since people do not all press a key at the same moment."""
    left = iter(range(runs))
    walls: list[float] = []

    async def lane(number: int) -> None:
        await asyncio.sleep(spread_s * number / concurrency)
        for _ in left:
            walls.append(await play())

    began = time.perf_counter()
    await asyncio.gather(*(lane(number) for number in range(concurrency)))
    return tuple(walls), time.perf_counter() - began


async def metered(
    play: Play, runs: int, concurrency: int, own: Sequence[int], servers: Sequence[int]
) -> Batch:
    """A batch, and what these processes and their children spent on it."""
    before = cpu_of(own), cpu_of(servers)
    walls, elapsed = await lanes(play, runs, concurrency)
    after = cpu_of(own), cpu_of(servers)
    return Batch(walls, elapsed, after[0] - before[0], after[1] - before[1])


def cpu_of(pids: Sequence[int]) -> float:
    """CPU seconds so far of these processes and their children, the ended ones included."""
    total = 0.0
    for pid in pids:
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            try:
                times = each.cpu_times()
            except psutil.NoSuchProcess:
                continue  # its parent has its time from now on
            total += times.user + times.system + times.children_user + times.children_system
    return total
