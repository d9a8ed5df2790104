"""What is done to the stack: processes killed or frozen, the stream store full."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import psutil
from redis.asyncio import Redis
from redis.exceptions import RedisError

from cli.bench.stage import Ground

_FULL_S = 2.0
_FROZEN_S = (0.5, 3.0)

Do = Callable[[Ground, Random], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    weight: int
    do: Do


def _killed(component: str) -> Do:
    async def do(ground: Ground, draw: Random) -> None:
        if process := process_of(ground, component):
            with suppress(psutil.NoSuchProcess):
                process.kill()

    return do


def _frozen(component: str) -> Do:
    """It neither answers nor closes a connection, as over a network that stalls."""

    async def do(ground: Ground, draw: Random) -> None:
        process = process_of(ground, component)
        if process is None:
            return
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(draw.uniform(*_FROZEN_S))
            finally:
                process.send_signal(signal.SIGCONT)

    return do


async def _full(ground: Ground, draw: Random) -> None:
    """The stream store refuses every write."""
    with suppress(RedisError, OSError):
        async with Redis.from_url(ground.endpoints.redis_url) as redis:
            await redis.config_set("maxmemory", "1")
            try:
                await asyncio.sleep(_FULL_S)
            finally:
                await redis.config_set("maxmemory", "0")


FAULTS: tuple[Fault, ...] = (
    Fault("kill -9 worker", 4, _killed("worker")),
    Fault("kill -9 API", 3, _killed("API")),
    Fault("kill -9 PostgreSQL", 2, _killed("PostgreSQL")),
    Fault("kill -9 Valkey", 2, _killed("Valkey")),
    Fault("kill -9 Temporal", 2, _killed("Temporal")),
    Fault("kill -9 stand-in model", 2, _killed("stand-in model")),
    Fault("frozen worker", 1, _frozen("worker")),
    Fault("frozen PostgreSQL", 1, _frozen("PostgreSQL")),
    Fault("frozen Valkey", 1, _frozen("Valkey")),
    Fault("frozen Temporal", 1, _frozen("Temporal")),
    Fault("frozen stand-in model", 1, _frozen("stand-in model")),
    Fault("stream store full", 2, _full),
)


def draw_fault(draw: Random) -> Fault:
    return draw.choices(FAULTS, [fault.weight for fault in FAULTS])[0]


def process_of(ground: Ground, component: str) -> psutil.Process | None:
    """The process that the stack's own supervisor holds for this component, if it runs."""
    try:
        entries = json.loads(ground.state.processes.read_text())
        pid = next(entry["pid"] for entry in entries if entry["component"] == component)
        return psutil.Process(pid)
    except (OSError, ValueError, StopIteration, psutil.NoSuchProcess):
        return None
