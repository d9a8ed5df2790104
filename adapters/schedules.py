"""The engine's side of jobs: one Schedule each, made, compared, fired and taken away."""

from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleBackfill,
    ScheduleIntervalSpec,
    ScheduleListActionStartWorkflow,
    ScheduleListDescription,
    ScheduleListSchedule,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
)
from temporalio.service import RPCError, RPCStatusCode

from adapters.schedule_form import TASK_TIMEOUT, difference, schedule_of
from adapters.settings import Settings
from domain.errors import InvalidInput, NotFound
from domain.ids import AUTOMATION, RECONCILE_JOBS
from domain.jobs import SCHEDULE_PREFIX, Job, Timetable, schedule_id
from domain.schedules import Change, DesiredSchedule, Policy, desired
from domain.slots import Due, expected, next_due

RECONCILE_SCHEDULE = "reconcile:jobs"
_RPC_TIMEOUT = timedelta(seconds=5)
_EDGE = timedelta(seconds=30)
_TICK = timedelta(seconds=1)  # schedules have minutes
MAX_BACKFILL = 100  # slots in one request


@dataclass(frozen=True, slots=True)
class Listed:
    """A Schedule as the engine lists it. `job_id`: None where the id is no job's."""

    schedule_id: str
    job_id: UUID | None
    listing: ScheduleListDescription

    @property
    def ours(self) -> bool:
        """Whether it starts what a job starts. A namespace may hold Schedules of others."""
        schedule = self.listing.schedule
        action = schedule.action if isinstance(schedule, ScheduleListSchedule) else None
        return isinstance(action, ScheduleListActionStartWorkflow) and action.workflow == AUTOMATION


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a Schedule is about to do. `next_at`: with jitter."""

    next_at: tuple[datetime, ...]
    busy: bool  # something it started runs, or waits for its turn
    paused: bool


def policy_of(settings: Settings) -> Policy:
    """What the Schedules of all jobs have in common."""
    return Policy(queue=settings.run_queue, jitter_s=settings.job_jitter_s)


class Schedules:
    """Every method may be repeated. All raise RPCError where the engine can't be reached."""

    def __init__(self, client: Client, policy: Policy) -> None:
        self._client = client
        self._policy = policy

    def desired(self, job: Job, now: datetime) -> DesiredSchedule | None:
        return desired(job, self._policy, now)

    async def ensure(self, job: Job, now: datetime) -> Change | None:
        """Make the engine agree with the job; what it took, None if nothing."""
        want = self.desired(job, now)
        if want is None:
            return Change.DELETED if await self.delete(job.id) else None
        handle = self._client.get_schedule_handle(schedule_id(job.id))
        try:
            have = (await handle.describe(rpc_timeout=_RPC_TIMEOUT)).schedule
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return await self._create(want)
        change = difference(want, have.spec, have.state.note, paused=have.state.paused)
        if change is not None:
            new = schedule_of(want)
            await handle.update(lambda _: ScheduleUpdate(new), rpc_timeout=_RPC_TIMEOUT)
        return change

    async def _create(self, want: DesiredSchedule) -> Change | None:
        id, schedule = schedule_id(want.job_id), schedule_of(want)
        try:
            await self._client.create_schedule(id, schedule, rpc_timeout=_RPC_TIMEOUT)
        except ScheduleAlreadyRunningError:  # a twin was faster, and wanted the same
            return None
        return Change.CREATED

    async def delete(self, job_id: UUID) -> bool:
        """Whether there was one."""
        return await self.delete_by_id(schedule_id(job_id))

    async def delete_by_id(self, id: str) -> bool:
        try:
            await self._client.get_schedule_handle(id).delete(rpc_timeout=_RPC_TIMEOUT)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        return True

    async def trigger(self, job_id: UUID) -> None:
        """Fire now; behind what runs, if something does. Raises NotFound."""
        handle = self._client.get_schedule_handle(schedule_id(job_id))
        with _known():
            await handle.trigger(overlap=ScheduleOverlapPolicy.BUFFER_ALL, rpc_timeout=_RPC_TIMEOUT)

    async def backfill(self, job: Job, start: datetime, end: datetime) -> tuple[str, ...]:
        """Fire for every time from `start` to `end`, both included, one after another, in order.

        Returns the slots asked for. Raises NotFound, and InvalidInput for more than MAX_BACKFILL.
        """
        dues = list(islice(expected(job.timetable, start, end), MAX_BACKFILL + 1))
        if len(dues) > MAX_BACKFILL:
            raise InvalidInput("end", f"At most {MAX_BACKFILL} slots can be asked for at once.")
        await self.catch_up(job, dues)
        return tuple(due.slot for due in dues)

    async def catch_up(self, job: Job, dues: Sequence[Due]) -> None:
        """Fire exactly for these, in order. Raises NotFound."""
        if not dues:
            return
        fills = [self._fill(job.timetable, due.at) for due in dues]
        handle = self._client.get_schedule_handle(schedule_id(job.id))
        with _known():
            await handle.backfill(*fills, rpc_timeout=_RPC_TIMEOUT)

    def _fill(self, timetable: Timetable, at: datetime) -> ScheduleBackfill:
        """A stretch that holds one firing. The engine compares its end with the time after jitter,
        which it keeps before the next firing."""
        end = at + timedelta(seconds=self._policy.jitter_s) + _EDGE
        following = next_due(timetable, at)
        if following is not None:
            end = min(end, following - _TICK)
        return ScheduleBackfill(
            start_at=at - _TICK, end_at=end, overlap=ScheduleOverlapPolicy.BUFFER_ALL
        )

    async def describe(self, job_id: UUID) -> Outlook:
        """Raises NotFound."""
        handle = self._client.get_schedule_handle(schedule_id(job_id))
        with _known():
            found = await handle.describe(rpc_timeout=_RPC_TIMEOUT)
        return Outlook(
            next_at=tuple(found.info.next_action_times),
            busy=bool(found.info.running_actions) or found.raw_description.info.buffer_size > 0,
            paused=found.schedule.state.paused,
        )

    async def list(self, id_prefix: str = "") -> AsyncIterator[Listed]:
        """Every Schedule of a job whose id begins so. The engine's list lags by a moment."""
        query = f"ScheduleId STARTS_WITH '{SCHEDULE_PREFIX}{id_prefix}'"
        async for found in await self._client.list_schedules(query):
            yield Listed(found.id, _job_id(found.id), found)

    def differs(self, want: DesiredSchedule, listed: Listed) -> bool:
        """Whether the listing looks other than it should."""
        have = listed.listing.schedule
        if not isinstance(have, ScheduleListSchedule):
            return True
        state = have.state
        return difference(want, have.spec, state.note, paused=state.paused) is not None

    async def ensure_reconciler(self, every_s: float) -> None:
        """The Schedule that compares jobs with Schedules; one per namespace."""
        action = ScheduleActionStartWorkflow(
            RECONCILE_JOBS,
            id="reconcile/jobs",
            task_queue=self._policy.queue,
            task_timeout=TASK_TIMEOUT,
            static_summary="compares jobs with their Schedules",
        )
        every = ScheduleIntervalSpec(every=timedelta(seconds=every_s))
        new = Schedule(
            action=action,
            spec=ScheduleSpec(intervals=[every]),
            policy=SchedulePolicy(
                overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(seconds=every_s)
            ),
            state=ScheduleState(note="varve"),
        )
        try:
            await self._client.create_schedule(RECONCILE_SCHEDULE, new)
        except ScheduleAlreadyRunningError:
            handle = self._client.get_schedule_handle(RECONCILE_SCHEDULE)
            await handle.update(lambda _: ScheduleUpdate(new))


@contextmanager
def _known() -> Generator[None]:
    """Inside: the engine's word for a Schedule that is not there. Outside: ours."""
    try:
        yield
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise NotFound("The job has no Schedule.") from error


def _job_id(id: str) -> UUID | None:
    try:
        return UUID(id.removeprefix(SCHEDULE_PREFIX))
    except ValueError:
        return None
