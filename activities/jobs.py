"""Jobs and Schedules that disagree are made to agree; what is owed is caught up."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog
from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from activities.model import heartbeats
from adapters.postgres.job_sweep import JobSweepStore, Mirror, RunningSlot
from adapters.postgres.slots import SlotStore
from adapters.schedules import Listed, Schedules
from domain.ids import run_workflow_id
from domain.jobs import Job, JobStatus, SlotStatus
from domain.schedules import Change
from domain.slots import OWED_DAYS, Due, next_due, owed

_log = structlog.get_logger(__name__)

GRACE = timedelta(minutes=5)
"""A slot that is overdue by less, beside its jitter, is left to the engine."""
CLAIMED_BEFORE = timedelta(seconds=30)
"""A slot that was claimed later is not looked for."""
BUCKET = 250
"""Jobs that are compared at once, about."""
_PAGE = 250
_SIDE_BY_SIDE = 8  # calls to the engine
_MOST_DIGITS = 4
_AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED)

Progress = Callable[[int, int], None]
"""Told after each bucket: how many of how many."""


@dataclass(slots=True)
class Counts:
    """What a sweep found and did."""

    jobs: int = 0
    created: int = 0
    updated: int = 0
    paused: int = 0
    resumed: int = 0
    deleted: int = 0
    caught_up: int = 0  # slots that were owed and have been asked for
    missed: int = 0  # slots that are owed, those among them
    ended: int = 0  # running slots whose workflow was gone
    failed: int = 0  # jobs that could not be compared; the log says why

    def add(self, change: Change | None) -> None:
        if change is not None:
            setattr(self, change.value, getattr(self, change.value) + 1)

    @property
    def mended(self) -> int:
        return (
            self.created + self.updated + self.paused + self.resumed + self.deleted
            + self.caught_up + self.ended
        )  # fmt: skip


@dataclass(slots=True)
class _Bucket:
    """Jobs whose ids begin alike, and what their Schedules looked like."""

    jobs: dict[UUID, Job]
    seen: set[UUID] = field(default_factory=set[UUID])
    wrong: list[Job] = field(default_factory=list[Job])
    strangers: list[Listed] = field(default_factory=list[Listed])


class JobReconciler:
    """Compares in bounded memory: a bucket of ids at a time. Safe to repeat and to run twice."""

    def __init__(
        self,
        *,
        client: Client,
        schedules: Schedules,
        sweep: JobSweepStore,
        slots: SlotStore,
        jitter_s: float,
        grace: timedelta = GRACE,
        claimed_before: timedelta = CLAIMED_BEFORE,
        bucket: int = BUCKET,
    ) -> None:
        self._client = client
        self._schedules = schedules
        self._sweep = sweep
        self._slots = slots
        self._late = timedelta(seconds=jitter_s) + grace
        self._claimed_before = claimed_before
        self._bucket = bucket
        self._gate = asyncio.Semaphore(_SIDE_BY_SIDE)

    @activity.defn(name="jobs.reconcile")
    async def reconcile(self) -> Counts:
        """One sweep, as an activity."""
        async with heartbeats():
            return await self.run()

    async def run(self, progress: Progress | None = None) -> Counts:
        """One sweep. Raises RPCError where the engine can't be reached."""
        counts = Counts()
        prefixes = list(_prefixes(await self._sweep.count(), self._bucket))
        await self._end_lost(counts)
        for done, prefix in enumerate(prefixes, 1):
            await self._compare(prefix, counts)
            if progress is not None:
                progress(done, len(prefixes))
        if counts.mended or counts.failed:
            _log.info("jobs_reconciled", **{n: getattr(counts, n) for n in Counts.__slots__})
        return counts

    async def _compare(self, prefix: str, counts: Counts) -> None:
        now = datetime.now(UTC)
        bucket = _Bucket({job.id: job async for job in self._jobs(prefix)})
        async for listed in self._schedules.list(prefix):
            self._look(bucket, listed, now)
        counts.jobs += len(bucket.jobs)
        absent = [job for job in bucket.jobs.values() if job.id not in bucket.seen]
        await asyncio.gather(*(self._ensure(job, now, counts) for job in absent + bucket.wrong))
        await self._drop(bucket.strangers, counts)
        await self._catch_up(list(bucket.jobs.values()), now, counts)

    async def _jobs(self, prefix: str) -> AsyncIterator[Job]:
        first, last = UUID((prefix + "0" * 32)[:32]), UUID((prefix + "f" * 32)[:32])
        page = await self._sweep.page(first, last, None, _PAGE)
        while page:
            for job in page:
                yield job
            page = await self._sweep.page(first, last, page[-1].id, _PAGE)

    def _look(self, bucket: _Bucket, listed: Listed, now: datetime) -> None:
        job = bucket.jobs.get(listed.job_id) if listed.job_id else None
        if job is None:
            bucket.strangers.append(listed)
            return
        bucket.seen.add(job.id)
        try:
            want = self._schedules.desired(job, now)
        except Exception:  # `_ensure` meets it again, and counts it
            want = None
        if want is None or self._schedules.differs(want, listed):
            bucket.wrong.append(job)

    async def _ensure(self, job: Job, now: datetime, counts: Counts) -> None:
        async with self._guarded(job.id, counts):
            counts.add(await self._schedules.ensure(job, now))

    async def _drop(self, strangers: Sequence[Listed], counts: Counts) -> None:
        """Take away Schedules of jobs that are gone; one may have been written just now. What
        starts something else than a job is somebody's who likes such ids."""
        ids = {listed.job_id for listed in strangers if listed.job_id is not None and listed.ours}
        if ids:
            gone = ids - await self._sweep.scheduled(ids)
            await asyncio.gather(*(self._delete(job_id, counts) for job_id in gone))

    async def _delete(self, job_id: UUID, counts: Counts) -> None:
        async with self._guarded(job_id, counts):
            if await self._schedules.delete(job_id):
                counts.add(Change.DELETED)

    async def _catch_up(self, jobs: Sequence[Job], now: datetime, counts: Counts) -> None:
        """Ask for the slots that are owed, and note in the rows what is missing and what is next.

        A job whose Schedule has something in hand is asked again at the next sweep: what it has in
        hand may be what is owed.
        """
        since = (now - timedelta(days=OWED_DAYS + 2)).date().isoformat()
        claimed = await self._sweep.claimed([job.id for job in jobs], since)
        mirrors: list[Mirror] = []
        for job in jobs:
            async with self._guarded(job.id, counts):
                dues = self._owed(job, now, claimed.get(job.id, set()))
                counts.missed += len(dues)
                if dues and not (await self._schedules.describe(job.id)).busy:
                    await self._schedules.catch_up(job, dues)
                    counts.caught_up += len(dues)
                    _log.info("slots_caught_up", job=str(job.id), slots=[d.slot for d in dues])
                active = job.status is JobStatus.ACTIVE
                due = next_due(job.timetable, now) if active else None
                if (due, len(dues)) != (job.next_run_at, job.missed):
                    mirrors.append(Mirror(job.id, due, len(dues)))
        if mirrors:
            await self._sweep.mirror(mirrors)

    def _owed(self, job: Job, now: datetime, claimed: set[str]) -> list[Due]:
        if job.status is not JobStatus.ACTIVE:
            return []
        return owed(job.timetable, job.expected_from, now - self._late, claimed)

    async def _end_lost(self, counts: Counts) -> None:
        """Fail slots whose workflow was stopped from outside: the next firing may take them."""
        before, last = datetime.now(UTC) - self._claimed_before, None
        while page := await self._sweep.running(before, last, _PAGE):
            last = page[-1]
            counts.ended += sum(await asyncio.gather(*(self._end_if_lost(slot) for slot in page)))

    async def _end_if_lost(self, slot: RunningSlot) -> bool:
        async with self._gate:
            if await self._runs(slot.workflow_id):
                return False
        error = ("terminated", "The slot was stopped from outside.")
        held = (slot.job_id, slot.slot, slot.workflow_run_id)
        if await self._slots.finish(*held, SlotStatus.FAILED, error) is None:
            return False
        for key in await self._sweep.open_runs(slot):
            await self._interrupt(run_workflow_id(key), error[1])
        return True

    async def _interrupt(self, workflow_id: str, reason: str) -> None:
        """Stop a run that nobody waits for any more; it keeps its session until it ends."""
        try:
            await self._client.get_workflow_handle(workflow_id).signal("interrupt", reason)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    async def _runs(self, workflow_id: str) -> bool:
        try:
            found = await self._client.get_workflow_handle(workflow_id).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        return found.status is WorkflowExecutionStatus.RUNNING

    @asynccontextmanager
    async def _guarded(self, job_id: UUID, counts: Counts) -> AsyncGenerator[None]:
        """One job's trouble is counted and logged; the engine's ends the sweep."""
        try:
            async with self._gate:
                yield
        except Exception as error:
            if isinstance(error, RPCError) and error.status in _AWAY:
                raise
            counts.failed += 1
            _log.exception("job_not_reconciled", job=str(job_id))


def _prefixes(jobs: int, bucket: int) -> Iterator[str]:
    """Beginnings of ids, as long as needed for about `bucket` jobs to share one."""
    digits = 0
    while jobs > bucket * 16**digits and digits < _MOST_DIGITS:
        digits += 1
    for number in range(16**digits):
        yield f"{number:0{digits}x}" if digits else ""
