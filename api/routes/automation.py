"""Jobs: what an agent does by itself. Owners see their own; operators act for others, on record."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from fastapi import APIRouter

from activities.jobs import GRACE
from api import firing, paging
from api.acting import Acting, JobReading, JobWriting
from api.job_input import (
    BackfillBody,
    JobBody,
    JobPatch,
    TriggerBody,
    check_profile,
    check_tools,
)
from api.job_views import (
    BackfillView,
    ChangedJobView,
    JobView,
    SlotRunView,
    TriggerView,
)
from api.paging import Cursor, Limit
from api.problems import documented, invalid
from api.state import Of, Services
from api.views import Page
from domain.jobs import Job, JobStatus
from domain.slots import OWED_DAYS, Slot, owed

router = APIRouter(prefix="/automation/jobs", tags=["automation"])


@router.get("", summary="List jobs, newest first", responses=documented(403, 404))
async def list_jobs(
    services: Of,
    acting: JobReading,
    status: JobStatus | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[JobView]:
    before = paging.decode(cursor)
    jobs = await services.jobs.list(acting.owner.id, status=status, before=before, limit=limit)
    last = paging.encode(jobs[-1].created_at, jobs[-1].id) if len(jobs) == limit else None
    return Page(items=await _views(services, acting, jobs), next_cursor=last)


@router.post("", summary="Create a job", status_code=201, responses=documented(403, 404))
async def create_job(body: JobBody, services: Of, acting: JobWriting) -> ChangedJobView:
    check_tools(body.config.tools, services.tools.specs)
    check_profile(body.execution_profile, services.profiles, acting.who)
    job = await services.jobs.create(acting.owner.id, body.job(acting.owner))
    return await _changed(services, acting, job)


@router.get("/{job_id}", summary="A job", responses=documented(403, 404))
async def get_job(job_id: UUID, services: Of, acting: JobReading) -> JobView:
    job = await services.jobs.get(acting.owner.id, job_id)
    return (await _views(services, acting, [job]))[0]


@router.patch("/{job_id}", summary="Change a job", responses=documented(403, 404))
async def change_job(
    job_id: UUID, body: JobPatch, services: Of, acting: JobWriting
) -> ChangedJobView:
    await services.jobs.get(acting.owner.id, job_id)
    check_tools(body.config.tools, services.tools.specs)
    check_profile(body.execution_profile, services.profiles, acting.who)
    job = await services.jobs.update(acting.owner.id, job_id, body.change())
    return await _changed(services, acting, job)


@router.delete("/{job_id}", summary="Delete a job", responses=documented(403, 404))
async def delete_job(job_id: UUID, services: Of, acting: JobWriting) -> ChangedJobView:
    return await _set_status(services, acting, job_id, JobStatus.DELETED)


@router.post("/{job_id}/pause", summary="Run nothing for now", responses=documented(403, 404, 409))
async def pause_job(job_id: UUID, services: Of, acting: JobWriting) -> ChangedJobView:
    return await _set_status(services, acting, job_id, JobStatus.PAUSED)


@router.post("/{job_id}/resume", summary="Go on from now", responses=documented(403, 404, 409))
async def resume_job(job_id: UUID, services: Of, acting: JobWriting) -> ChangedJobView:
    return await _set_status(services, acting, job_id, JobStatus.ACTIVE)


@router.post(
    "/{job_id}/trigger",
    summary="Run now",
    status_code=202,
    responses=documented(403, 404, 409),
)
async def trigger_job(
    job_id: UUID, services: Of, acting: JobWriting, body: TriggerBody | None = None
) -> TriggerView:
    """For the slot of this moment. While it runs, this attaches; when it has run, it is 409."""
    job = await services.jobs.get(acting.owner.id, job_id)
    slot, running = await firing.trigger(services, job, again=body is not None and body.again)
    return TriggerView(
        slot=slot,
        state="running" if running else "requested",
        run=SlotRunView.of(running) if running else None,
    )


@router.post(
    "/{job_id}/backfill",
    summary="Run the slots of a past stretch, in order",
    status_code=202,
    responses=documented(403, 404, 409),
)
async def backfill_job(
    job_id: UUID, body: BackfillBody, services: Of, acting: JobWriting
) -> BackfillView:
    job = await services.jobs.get(acting.owner.id, job_id)
    start, end = body.stretch(job.timetable.timezone, datetime.now(UTC))
    asked = await firing.backfill(services, job, start, end, again=body.again)
    return BackfillView(
        requested=list(asked.requested), running=list(asked.running), done=list(asked.done)
    )


@router.get(
    "/{job_id}/runs", summary="Slots that have begun, latest first", responses=documented(403, 404)
)
async def list_job_runs(
    job_id: UUID, services: Of, acting: JobReading, limit: Limit = 50, cursor: Cursor = None
) -> Page[SlotRunView]:
    await services.jobs.get(acting.owner.id, job_id)
    slots = await services.slots.list(
        acting.owner.id, job_id, before=_decode_slot(cursor), limit=limit
    )
    last = _encode_slot(slots[-1]) if len(slots) == limit else None
    return Page(items=[SlotRunView.of(slot) for slot in slots], next_cursor=last)


async def _set_status(
    services: Services, acting: Acting, job_id: UUID, status: JobStatus
) -> ChangedJobView:
    job = await services.jobs.get(acting.owner.id, job_id)
    if job.status is JobStatus.COMPLETED and status is not JobStatus.DELETED:
        raise firing.inactive(job, "The job has run; give it a new time instead.")
    job = await services.jobs.set_status(acting.owner.id, job_id, status)
    return await _changed(services, acting, job)


async def _changed(services: Services, acting: Acting, job: Job) -> ChangedJobView:
    synced = await firing.carry_over(services, job)
    missed, last = await _looked_up(services, acting, [job])
    return ChangedJobView.of(job, missed[job.id], last.get(job.id), schedule_in_sync=synced)


async def _views(services: Services, acting: Acting, jobs: Sequence[Job]) -> list[JobView]:
    missed, last = await _looked_up(services, acting, jobs)
    return [JobView.of(job, missed[job.id], last.get(job.id)) for job in jobs]


async def _looked_up(
    services: Services, acting: Acting, jobs: Sequence[Job]
) -> tuple[dict[UUID, list[str]], dict[UUID, Slot]]:
    """Of each job: the slots that it owes, and the last one that began."""
    now = datetime.now(UTC)
    late = timedelta(seconds=services.settings.job_jitter_s) + GRACE
    since = (now - timedelta(days=OWED_DAYS + 2)).date().isoformat()
    ids = [job.id for job in jobs]
    claimed = await services.sweep.claimed(ids, since)
    missed: dict[UUID, list[str]] = {}
    for job in jobs:
        dues = (
            owed(job.timetable, job.expected_from, now - late, claimed.get(job.id, set()))
            if job.status is JobStatus.ACTIVE
            else []
        )
        missed[job.id] = [due.slot for due in dues]
    return missed, await services.overview.last_slots(acting.owner.id, ids)


def _encode_slot(slot: Slot) -> str:
    return base64.urlsafe_b64encode(slot.slot.encode()).decode()


def _decode_slot(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        slot = base64.urlsafe_b64decode(cursor).decode("ascii")
    except ValueError as error:
        raise invalid("cursor", "Not a cursor of this list.") from error
    if not 10 <= len(slot) <= 17 or "\x00" in slot:
        raise invalid("cursor", "Not a cursor of this list.")
    return slot
