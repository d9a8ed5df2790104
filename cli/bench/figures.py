"""From batches to figures: percentiles, rates and CPU per run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cli.bench.batches import Batch
from cli.bench.subjects import History


@dataclass(frozen=True, slots=True)
class Load:
    """One subject at one concurrency. Milliseconds per run; CPU of its workers and of servers."""

    concurrency: int
    runs: int
    p50_ms: float
    p95_ms: float
    runs_per_s: float
    cpu_ms: float
    servers_cpu_ms: float


@dataclass(frozen=True, slots=True)
class Figure:
    """A subject: its loads, and what one run leaves in the engine (None: it has no engine)."""

    name: str
    loads: tuple[Load, ...]
    history: History | None
    history_long: History | None  # the same with ten times the text


@dataclass(frozen=True, slots=True)
class First:
    """Milliseconds to the first token at one concurrency."""

    name: str
    concurrency: int
    calls: int
    p50_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Findings:
    machine: str
    versions: dict[str, str]
    exchanges: int  # that each session had seen before
    taken_at: str  # ISO 8601, UTC
    figures: tuple[Figure, ...]
    firsts: tuple[First, ...]


def load_of(concurrency: int, batches: Sequence[Batch]) -> Load:
    walls = [wall for batch in batches for wall in batch.walls]
    runs = len(walls)
    return Load(
        concurrency=concurrency,
        runs=runs,
        p50_ms=percentile(walls, 50) * 1000,
        p95_ms=percentile(walls, 95) * 1000,
        runs_per_s=runs / sum(batch.elapsed for batch in batches),
        cpu_ms=sum(batch.cpu for batch in batches) / runs * 1000,
        servers_cpu_ms=sum(batch.servers_cpu for batch in batches) / runs * 1000,
    )


def first_of(name: str, concurrency: int, waits: Sequence[float]) -> First:
    """`waits` in seconds."""
    middle, high = percentile(waits, 50), percentile(waits, 95)
    return First(name, concurrency, len(waits), middle * 1000, high * 1000)


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank: the smallest value that so many per cent are not above."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(percent / 100 * len(ranked)) - 1)]
