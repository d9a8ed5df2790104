"""Many jobs compared with their Schedules: how long a sweep takes, and how much memory."""

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from activities.jobs import JobReconciler
from adapters.postgres.job_sweep import JobSweepStore
from adapters.postgres.slots import SlotStore
from adapters.postgres.users import UserStore
from adapters.schedules import Schedules
from cli.bench.stage import Ground, grounded
from domain.schedules import Policy

QUEUE = "bench-sweep"
_NEVER_S = 86_400.0
_MIB = 2**20
_JITTER_S = 600.0
_DAMAGED = 0.01  # share of the jobs whose Schedule is wrong in the third sweep

# None of them is due while this is measured: the time of day they all have has just passed.
_ADD = """
INSERT INTO automation_jobs (owner_id, title, schedule_type, run_at, timezone, config,
                             execution_profile)
SELECT $1, 'job ' || n, 'daily', $2, 'UTC', '{"prompt": "read", "tools": []}',
       '"automation_memory_default"'
FROM generate_series(1, $3::integer) AS n
"""
_MOVE = """
UPDATE automation_jobs SET run_at = $1
WHERE id IN (SELECT id FROM automation_jobs ORDER BY md5(id::text) LIMIT $2)
"""


@dataclass(frozen=True, slots=True)
class Sweep:
    """One sweep. `peak_mib`: Python memory that one more like it held at most, beside what was
    there before; None where the first leaves nothing to repeat."""

    what: str
    jobs: int
    seconds: float
    mended: int
    peak_mib: float | None


async def swept(sizes: tuple[int, ...], say: Callable[[str], None]) -> tuple[Sweep, ...]:
    """Three sweeps at each number of jobs, fewest first. Raises StackError."""
    given = {"VARVE_JOB_RECONCILE_S": str(_NEVER_S), "VARVE_RUN_QUEUE": QUEUE}
    found: list[Sweep] = []
    async with grounded(say, **given) as ground:
        owner = (await UserStore(ground.pool).add_user("bench", timezone="UTC")).id
        there, right, wrong = 0, _past(1), _past(2)
        for jobs in sorted(sizes):
            await ground.pool.execute(_ADD, owner, right, jobs - there)
            there = jobs
            found.append(await _timed(ground, "no Schedule yet", jobs, say))
            quiet = await _timed(ground, "nothing to mend", jobs, say)
            found.append(replace(quiet, peak_mib=await _peak(ground)))
            await ground.pool.execute(_MOVE, wrong, max(1, int(jobs * _DAMAGED)))
            found.append(await _timed(ground, "one in a hundred wrong", jobs, say))
    return tuple(found)


def _past(hours: int) -> str:
    return f"{datetime.now(UTC) - timedelta(hours=hours):%H:%M}"


async def _timed(ground: Ground, what: str, jobs: int, say: Callable[[str], None]) -> Sweep:
    say(f"{jobs:,} jobs, {what}")
    began = time.perf_counter()
    counts = await _reconciler(ground).run()
    return Sweep(what, jobs, time.perf_counter() - began, counts.mended, None)


async def _peak(ground: Ground) -> float:
    """Of a sweep that is not timed: being traced makes it several times slower."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        await _reconciler(ground).run()
        return (tracemalloc.get_traced_memory()[1] - before) / _MIB
    finally:
        tracemalloc.stop()


def _reconciler(ground: Ground) -> JobReconciler:
    return JobReconciler(
        client=ground.client,
        schedules=Schedules(ground.client, Policy(QUEUE, _JITTER_S)),
        sweep=JobSweepStore(ground.pool),
        slots=SlotStore(ground.pool),
        jitter_s=_JITTER_S,
    )
