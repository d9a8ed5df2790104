"""Jobs and the engine: changes are carried over at once, firings are asked for or not at all."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import structlog
from temporalio.service import RPCError

from adapters.schedules import MAX_BACKFILL
from api.job_views import SlotRunView
from api.problems import Problem, invalid, unavailable
from api.state import Services
from domain.jobs import Job, JobStatus, SlotStatus
from domain.slots import Due, Slot, expected, slot_of

_log = structlog.get_logger(__name__)

PATIENCE_S = 4.0


async def carry_over(services: Services, job: Job) -> bool:
    """Make the engine's Schedule agree with a job; whether it does. The reconciler mends it."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            await services.schedules.ensure(job, datetime.now(UTC))
    except (RPCError, OSError, TimeoutError) as error:
        _log.warning("schedule_not_in_sync", job=str(job.id), error=repr(error))
        return False
    return True


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of the slots that somebody asked for, each in its order."""

    requested: tuple[str, ...]
    running: tuple[str, ...]
    done: tuple[str, ...]


async def trigger(services: Services, job: Job, *, again: bool) -> tuple[str, Slot | None]:
    """Fire now: the slot, and itself if it runs already.

    Raises Problem: `job-inactive`, `slot-done`, `unavailable` (it may have been asked all the
    same; a slot runs once).
    """
    _check_active(job)
    slot = slot_of(job.timetable, datetime.now(UTC))
    asked = await _sorted(services, job, [slot], again=again)
    if asked.running:
        return slot, await services.slots.get(job.owner_id, job.id, slot)
    if asked.done:
        raise await _done(services, job, slot)
    async with _reopened(services, job, asked.requested, again=again), _engine():
        await services.schedules.ensure(job, datetime.now(UTC))
        await services.schedules.trigger(job.id)
    return slot, None


async def backfill(
    services: Services, job: Job, start: datetime, end: datetime, *, again: bool
) -> Asked:
    """Fire for the slots due from `start` to `end`, one after another.

    Raises Problem, as `trigger` does, and for a stretch with no slots or too many.
    """
    _check_active(job)
    dues = list(islice(expected(job.timetable, start, end), MAX_BACKFILL + 1))
    if not dues:
        raise invalid("end", "No slot of the job is due in this stretch.")
    if len(dues) > MAX_BACKFILL:
        raise invalid("end", f"At most {MAX_BACKFILL} slots can be asked for at once.")
    asked = await _sorted(services, job, [due.slot for due in dues], again=again)
    wanted: Sequence[Due] = [due for due in dues if due.slot in asked.requested]
    async with _reopened(services, job, asked.requested, again=again), _engine():
        if wanted:
            await services.schedules.ensure(job, datetime.now(UTC))
            await services.schedules.catch_up(job, wanted)
    return asked


def _check_active(job: Job) -> None:
    if job.status is JobStatus.ACTIVE:
        return
    raise inactive(job, f"The job is {job.status}: it runs nothing.")


def inactive(job: Job, detail: str) -> Problem:
    return Problem("job-inactive", 409, detail, {"jobStatus": job.status.value})


async def _done(services: Services, job: Job, slot: str) -> Problem:
    run = SlotRunView.of(await services.slots.get(job.owner_id, job.id, slot))
    extra = {"slot": slot, "run": run.model_dump(mode="json")}
    return Problem("slot-done", 409, f"Slot {slot} has run: {run.status}. Ask again?", extra)


async def _sorted(services: Services, job: Job, slots: Sequence[str], *, again: bool) -> Asked:
    standing = await services.overview.standing(job.owner_id, job.id, slots)
    requested: list[str] = []
    running: list[str] = []
    done: list[str] = []
    for slot in slots:
        stands = standing.get(slot)
        if stands is not None and stands.status is SlotStatus.RUNNING:
            running.append(slot)
        elif stands is None or stands.status is SlotStatus.FAILED or stands.reopened or again:
            requested.append(slot)
        else:
            done.append(slot)
    return Asked(tuple(requested), tuple(running), tuple(done))


@asynccontextmanager
async def _reopened(
    services: Services, job: Job, slots: Sequence[str], *, again: bool
) -> AsyncGenerator[None]:
    """Inside, these slots may be taken again. They are as before if what is inside fails."""
    if not again:
        yield
        return
    before = await services.overview.standing(job.owner_id, job.id, slots)
    ours = [slot for slot, stands in before.items() if not stands.reopened]
    await services.slots.reopen(job.owner_id, job.id, ours)
    try:
        yield
    except BaseException:
        await services.slots.close_again(job.owner_id, job.id, ours)
        raise


@asynccontextmanager
async def _engine() -> AsyncGenerator[None]:
    """Inside: an engine that may be away. Outside: a 503 that says so."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    except (RPCError, OSError, TimeoutError) as error:
        _log.warning("engine_away", error=repr(error))
        words = "The workflow engine did not answer. Ask again: a slot runs once all the same."
        raise unavailable(words) from error
