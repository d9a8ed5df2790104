"""Jobs, their Schedules and firings for tests, through the production stores."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from temporalio.client import Client, WorkflowHandle

from activities.jobs import JobReconciler
from adapters.postgres.job_sweep import JobSweepStore
from adapters.postgres.jobs import JobStore
from adapters.postgres.pool import Pool
from adapters.postgres.runs import RunStore
from adapters.postgres.slots import SlotStore
from adapters.schedules import Schedules
from domain.automation import AutomationInput, AutomationResult
from domain.events import RunStatus
from domain.ids import AUTOMATION
from domain.jobs import Job, JobConfig, NewJob, ScheduleType, SlotStatus, Timetable, schedule_id
from domain.runs import Ending, Run
from domain.schedules import Policy
from domain.slots import Slot
from tests.fixtures_worker import System, serving
from tests.people import new_run


async def until(condition: Callable[[], Awaitable[bool]], within_s: float = 30) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():
            await asyncio.sleep(0.05)


def daily(
    run_at: str = "10:00",
    timezone: str = "Asia/Shanghai",
    *,
    profile: Any = "chat_default",
    prompt: str = "Say what happened.",
    tools: tuple[str, ...] = (),
) -> NewJob:
    times = Timetable(ScheduleType.DAILY, run_at, timezone)
    return NewJob("Daily", times, JobConfig(prompt, tools), profile=profile)


def clock(at: datetime) -> str:
    return at.strftime("%H:%M")


@dataclass(frozen=True)
class Automation:
    """The automation of one system: its stores and its Schedules, without jitter."""

    system: System

    @property
    def jobs(self) -> JobStore:
        return JobStore(self.system.pool)

    @property
    def slots(self) -> SlotStore:
        return SlotStore(self.system.pool)

    @property
    def schedules(self) -> Schedules:
        return Schedules(self.system.client, Policy(self.system.settings.run_queue, jitter_s=0))

    @property
    def reconciler(self) -> JobReconciler:
        return reconciler(self.system.client, self.system.pool, self.schedules)

    async def create(self, new: NewJob, owner: UUID | None = None) -> Job:
        return await self.jobs.create(owner or self.system.owner, new)

    async def fire(self, job: Job) -> AutomationResult:
        """What its Schedule would start now, and how it ended."""
        return await (await self.start(job)).result()

    async def start(self, job: Job) -> WorkflowHandle[Any, AutomationResult]:
        return await self.system.client.start_workflow(
            AUTOMATION,
            AutomationInput(job.id),
            id=f"{schedule_id(job.id)}-{uuid4().hex}",
            task_queue=self.system.settings.run_queue,
            result_type=AutomationResult,
        )

    async def all_slots(self, job: Job) -> list[Slot]:
        """Oldest first."""
        return (await self.slots.list(job.owner_id, job.id))[::-1]

    async def ended(self, job: Job, count: int) -> list[Slot]:
        """The job's slots once that many have ended."""

        async def enough() -> bool:
            slots = await self.all_slots(job)
            return sum(slot.status is not SlotStatus.RUNNING for slot in slots) >= count

        await until(enough)
        return await self.all_slots(job)

    async def owe(self, job: Job, days: int) -> Job:
        """As if the job were that many days old."""
        await self.system.pool.execute(
            "UPDATE automation_jobs SET expected_from = $2 WHERE id = $1",
            job.id,
            datetime.now(UTC) - timedelta(days=days),
        )
        return await self.jobs.get_by_id(job.id)


@contextlib.asynccontextmanager
async def awake(system: System) -> AsyncGenerator[Automation]:
    """Served by a worker that keeps its workflows in memory, as in production: one that does not
    throws their local activities away when many workflows run at once."""
    config = system.settings.model_copy(update={"run_queue": f"awake-{uuid4().hex}"})
    async with serving(config, system.client, system.pool):
        yield Automation(replace(system, settings=config))


def reconciler(client: Client, pool: Pool, schedules: Schedules) -> JobReconciler:
    """One that waits for nobody."""
    return JobReconciler(
        client=client,
        schedules=schedules,
        sweep=JobSweepStore(pool),
        slots=SlotStore(pool),
        jitter_s=0,
        grace=timedelta(),
        claimed_before=timedelta(),
    )


async def said(pool: Pool, owner: UUID, text: str = "hello", thread_id: str = "thread") -> Run:
    """A chat message and the end of its run, without a model."""
    store = RunStore(pool)
    run = (await store.accept(new_run(owner, text, thread_id=thread_id))).run
    await store.finish(run.key, Ending(RunStatus.COMPLETED))
    return run


async def times_read(pool: Pool, owner: UUID | None = None) -> dict[int, int]:
    """How many chat messages of users (of this one) are in how many windows of completed runs."""
    rows = await pool.fetch(
        """
        SELECT n, count(*) AS messages FROM (
            SELECT (SELECT count(*) FROM job_windows w, jsonb_array_elements(w.parts) AS p
                    WHERE w.status = 'done' AND (p->>'session')::uuid = m.session_id
                      AND m.seq BETWEEN (p->>'first_seq')::bigint AND (p->>'last_seq')::bigint) AS n
            FROM messages m WHERE m.role = 'user' AND NOT m.hidden_from_user
              AND ($1::uuid IS NULL OR m.owner_id = $1)) AS read
        GROUP BY n""",
        owner,
    )
    return {row["n"]: row["messages"] for row in rows}
