"""A trial: runs in lanes, faults in between, then calm, then the verdict."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from random import Random

import httpx2

from cli.bench.chaos.faults import draw_fault
from cli.bench.chaos.judge import Verdict, judged
from cli.bench.chaos.lanes import POINTS, Board, Lane, Told
from cli.bench.stage import Ground, grounded
from cli.client import BASE, AgentClient
from cli.stack.postgres import connection

_GIVEN = {
    "VARVE_HEARTBEAT_TIMEOUT_S": "2",  # a silent worker is given up sooner, so that more fits in
    "VARVE_RETRY_S": "0.5",
    "VARVE_MODEL_TIMEOUT_S": "3",
}
_POINT_S = 2.0  # the longest wait for a run to reach the point that was drawn
_CALM_S = (0.1, 1.0)  # between two faults, once all answers again
_SETTLED_S = 60.0
_EVERY_S = 15.0  # progress is told


@dataclass(frozen=True, slots=True)
class Trial:
    """`seed`: the same draws again (the machine's timing is its own)."""

    runs: int = 500
    lanes: int = 12
    seed: int = 1
    within_s: float = 1_800.0


@dataclass(slots=True)
class Outcome:
    trial: Trial
    faults: Counter[str] = field(default_factory=Counter[str])
    points: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    reconnects: int = 0
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def whole(self) -> bool:
        return not self.verdict.breaches


async def tried(trial: Trial, say: Callable[[str], None]) -> Outcome:
    """Raises StackError, and TimeoutError if the runs don't come to an end in time."""
    outcome = Outcome(trial)
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(grounded(say, **_GIVEN))
        url, key = ground.endpoints.api_url, ground.endpoints.demo_api_key
        client = await stack.enter_async_context(AgentClient(url, key))
        owner = (await client.ask("GET", "/me"))["userId"]
        board, told = Board(), list[Told]()
        breaking = asyncio.create_task(_break(ground, board, Random(trial.seed), outcome))
        try:
            async with asyncio.timeout(trial.within_s):
                await _lanes(trial, client, board, told, say)
        finally:
            breaking.cancel()
            await asyncio.gather(breaking, return_exceptions=True)
        await _settled(ground)
        outcome.kinds.update(one.script.kind for one in told)
        outcome.reconnects = sum(one.reconnects for one in told)
        outcome.verdict = await judged(ground, owner, told)
        for line in _failures(ground):
            say(line)
    return outcome


def _failures(ground: Ground) -> list[str]:
    """What the API could not explain: a request that met a fault and got a 500."""
    log = ground.state.log("api").read_text(errors="replace").splitlines()
    return [line[:4_000] for line in log if "request_failed" in line][:5]


async def _lanes(
    trial: Trial,
    client: AgentClient,
    board: Board,
    told: list[Told],
    say: Callable[[str], None],
) -> None:
    numbers = iter(range(trial.runs))

    async def progress() -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            say(f"{sum(one.end is not None for one in told)} of {trial.runs} runs have ended")

    telling = asyncio.create_task(progress())
    lanes = (
        Lane(f"lane{place}", client, board, Random(f"{trial.seed}:{place}"))
        for place in range(trial.lanes)
    )
    try:
        await asyncio.gather(*(lane.go(numbers, told) for lane in lanes))
    finally:
        telling.cancel()


async def _break(ground: Ground, board: Board, draw: Random, outcome: Outcome) -> None:
    """One fault after the other, each at a point that some run has just reached."""
    while True:
        point, fault = draw.choice(POINTS), draw_fault(draw)
        reached = await board.next(point, _POINT_S)
        outcome.points[point if reached else "any time"] += 1
        outcome.faults[fault.name] += 1
        await fault.do(ground, draw)
        await _ready(ground)
        await asyncio.sleep(draw.uniform(*_CALM_S))


async def _ready(ground: Ground) -> None:
    """Wait until the API says that database and engine answer."""
    async with httpx2.AsyncClient(base_url=ground.endpoints.api_url + BASE, timeout=2.0) as http:
        while True:
            with suppress(httpx2.TransportError):
                if (await http.get("/health/ready")).status_code == 200:
                    return
            await asyncio.sleep(0.1)


async def _settled(ground: Ground) -> None:
    """Wait until no run is at work any more, or for as long as anything may take."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SETTLED_S
    await _ready(ground)
    async with connection(ground.endpoints.database_url) as database:
        while await database.fetchval("SELECT count(*) FROM runs WHERE finished_at IS NULL"):
            if loop.time() > deadline:
                return
            await asyncio.sleep(0.25)
    await asyncio.sleep(1.0)  # the engine closes a workflow a moment after its run has ended
