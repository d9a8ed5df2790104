"""The ten o'clock crowd: many users' daily memory, all due in the same minute."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from uuid import UUID

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

from adapters.postgres.jobs import JobStore
from adapters.postgres.runs import RunStore
from adapters.postgres.users import UserStore
from adapters.schedules import Schedules
from cli.bench.stage import Ground, grounded
from domain.events import RunStatus
from domain.jobs import JobChange
from domain.messages import Message, Role
from domain.runs import Ending, NewRun, RunRequest
from domain.schedules import Policy

QUEUE = "bench-crowd"
_SAID = ("my favourite tea is number {n}", "what is 2+3?", "I live in street {n}")
_FACTS = 2  # that these messages hold
_AT_ONCE = 16
_SAMPLE_S = 1.0
_SCHEDULES_PER_S = 60  # about half of what was measured, so that all are there in time

_PROGRESS = """
SELECT count(*) FILTER (WHERE status = 'running') AS running,
       count(*) FILTER (WHERE status <> 'running') AS finished
FROM job_slots WHERE scheduled_at = $1
"""
_OUTCOME = """
SELECT count(*) FILTER (WHERE status = 'completed') AS completed,
       coalesce(sum(attempt) - count(*), 0) AS again,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY finished_at) AS half, max(finished_at) AS last,
       (SELECT count(*) FROM runs WHERE origin = 'automation') AS runs,
       (SELECT count(*) FROM facts) AS facts,
       (SELECT count(*) FROM (SELECT FROM facts GROUP BY owner_id, scope, key
                              HAVING count(*) > 1) AS d) AS doubled
FROM job_slots WHERE scheduled_at = $1
"""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Sample:
    """`at`: seconds after the slot's time. `waiting`: jobs due that no worker has begun;
    `backlog`: tasks that the engine holds for workers."""

    at: float
    waiting: int
    running: int
    finished: int
    backlog: int


@dataclass(frozen=True, slots=True)
class Crowd:
    """What became of the crowd. `again`: slots that ran more than once; `doubled`: facts that are
    there more than once. Seconds are counted from the slot's time."""

    jobs: int
    jitter_s: float
    samples: tuple[Sample, ...]
    completed: int
    again: int
    runs: int
    facts: int
    facts_expected: int
    doubled: int
    half_s: float
    drained_s: float

    @property
    def whole(self) -> bool:
        """All done, none twice."""
        done = self.completed == self.runs == self.jobs and self.facts == self.facts_expected
        return done and self.again == self.doubled == 0


async def gathered(
    jobs: int, jitter_s: float, within_s: float, say: Callable[[str], None]
) -> Crowd:
    """Seed, wait for the minute, watch until all is done. Raises StackError, TimeoutError."""
    given = {"VARVE_JOB_JITTER_S": str(jitter_s), "VARVE_RUN_QUEUE": QUEUE}
    async with grounded(say, **given) as ground:
        say(f"Seeding {jobs:,} users")
        owners = await _spread(range(jobs), lambda number: _user(ground, number))
        due_at = _minute_in(timedelta(seconds=30 + jobs / _SCHEDULES_PER_S))
        say(f"Making {jobs:,} Schedules, all due at {due_at:%H:%M} UTC")
        schedules = Schedules(ground.client, Policy(QUEUE, jitter_s))
        await _spread(owners, lambda owner: _schedule(ground, schedules, owner, due_at))
        say(f"Ready {(due_at - datetime.now(UTC)).total_seconds():.0f} s before they are due")
        samples = await asyncio.wait_for(_watched(ground, jobs, due_at, say), within_s)
        return await _judged(ground, jobs, jitter_s, due_at, samples)


def _minute_in(ahead: timedelta) -> datetime:
    """The first whole minute after this while."""
    return (datetime.now(UTC) + ahead + timedelta(minutes=1)).replace(second=0, microsecond=0)


async def _user(ground: Ground, number: int) -> UUID:
    """A user with a chat behind them, in which they state their facts."""
    user = await UserStore(ground.pool).add_user(f"crowd-{number}", timezone="UTC")
    runs = RunStore(ground.pool)
    messages = tuple(
        Message(f"m{place}", Role.USER, text.format(n=number)) for place, text in enumerate(_SAID)
    )
    new = NewRun(user.id, "chat", "first", RunRequest(), messages)
    await runs.finish((await runs.accept(new)).run.key, Ending(RunStatus.COMPLETED))
    return user.id


async def _schedule(ground: Ground, schedules: Schedules, owner: UUID, due_at: datetime) -> None:
    jobs = JobStore(ground.pool)
    (job,) = await jobs.list(owner)
    job = await jobs.update(owner, job.id, JobChange(run_at=f"{due_at:%H:%M}"))
    await schedules.ensure(job, datetime.now(UTC))


async def _watched(
    ground: Ground, jobs: int, due_at: datetime, say: Callable[[str], None]
) -> tuple[Sample, ...]:
    """A sample a second, from the slot's time until every job has ended."""
    await asyncio.sleep(max(0.0, (due_at - datetime.now(UTC)).total_seconds()))
    samples: list[Sample] = []
    while not samples or samples[-1].finished < jobs:
        samples.append(await _sample(ground, jobs, due_at))
        if len(samples) % 15 == 0:
            say(f"{samples[-1].finished:,} of {jobs:,} done after {samples[-1].at:.0f} s")
        await asyncio.sleep(_SAMPLE_S)
    return tuple(samples)


async def _sample(ground: Ground, jobs: int, due_at: datetime) -> Sample:
    row = await ground.pool.fetchrow(_PROGRESS, due_at)
    assert row is not None
    running, finished = row["running"], row["finished"]
    backlog = await _backlog(ground)
    at = (datetime.now(UTC) - due_at).total_seconds()
    return Sample(at, jobs - running - finished, running, finished, backlog)


async def _backlog(ground: Ground) -> int:
    """Workflow and activity tasks that wait for a worker, as the engine estimates them."""
    total = 0
    for kind in (
        TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    ):
        described = await ground.client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=ground.client.namespace,
                task_queue=TaskQueue(name=QUEUE),
                task_queue_type=kind,
                report_stats=True,
            )
        )
        total += described.stats.approximate_backlog_count
    return total


async def _judged(
    ground: Ground, jobs: int, jitter_s: float, due_at: datetime, samples: tuple[Sample, ...]
) -> Crowd:
    row = await ground.pool.fetchrow(_OUTCOME, due_at)
    assert row is not None
    return Crowd(
        jobs=jobs,
        jitter_s=jitter_s,
        samples=samples,
        completed=row["completed"],
        again=row["again"],
        runs=row["runs"],
        facts=row["facts"],
        facts_expected=jobs * _FACTS,
        doubled=row["doubled"],
        half_s=(row["half"] - due_at).total_seconds(),
        drained_s=(row["last"] - due_at).total_seconds(),
    )


async def _spread(items: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    """Do this for all of them, a few at a time; results in the order in which they came."""
    left, done = iter(items), list[R]()

    async def lane() -> None:
        for item in left:
            done.append(await work(item))

    await asyncio.gather(*(lane() for _ in range(_AT_ONCE)))
    return done
