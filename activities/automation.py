"""What a firing of a job does with our database: claims its slot, hands out windows, ends."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.ending import end_lost
from activities.errors import translated
from adapters import profile_format
from adapters.postgres.audit import AuditEntry, AuditStore
from adapters.postgres.jobs import JobStore, profile_document
from adapters.postgres.runs import RunStore
from adapters.postgres.slots import ALERT_AFTER, Holder, SlotStore
from adapters.postgres.windows import Assigned, Place, Window, WindowStore
from adapters.profiles import Deprecations, ProfileCatalog
from adapters.stream import EventStream
from adapters.tools.registry import Registry
from domain.automation import Answer, Failure, Firing, Held, JobRun
from domain.errors import InvalidInput, NotFound, SessionBusy
from domain.events import RunStatus
from domain.jobs import Job, SlotStatus, job_thread
from domain.messages import Message, Origin, Role
from domain.profiles import Executor, Profile, SessionType
from domain.runs import NewRun, RunRequest
from domain.slots import slot_of
from domain.tools import Denier, unknown_names

_log = structlog.get_logger(__name__)

_WAIT = timedelta(seconds=1)  # between two looks at a run that somebody else has started


@dataclass(frozen=True, slots=True)
class WindowInput:
    """Which window of the slot that this firing holds, counted from 1."""

    job_id: UUID
    held: Held
    number: int

    @property
    def place(self) -> Place:
        return Place(self.job_id, self.held.slot, self.held.attempt, self.number)


@dataclass(frozen=True, slots=True)
class EndInput:
    firing: Firing
    slot: str
    status: SlotStatus
    failure: Failure | None = None


class AutomationActivities:
    def __init__(
        self,
        *,
        jobs: JobStore,
        slots: SlotStore,
        windows: WindowStore,
        runs: RunStore,
        audit: AuditStore,
        catalog: ProfileCatalog,
        registry: Registry,
        stream: EventStream,
    ) -> None:
        self._jobs = jobs
        self._slots = slots
        self._windows = windows
        self._runs = runs
        self._audit = audit
        self._catalog = catalog
        self._registry = registry
        self._stream = stream
        self._deprecations = Deprecations()

    @activity.defn(name="automation.claim")
    async def claim(self, firing: Firing) -> Answer:
        """Take the slot that is due, unless it was taken or the job no longer runs."""
        try:
            job = await self._jobs.get_by_id(firing.job_id)
        except NotFound:
            return Answer(None, outcome="skipped", reason="There is no such job.")
        slot = slot_of(job.timetable, firing.scheduled_at)
        holder = Holder(firing.workflow_id, firing.workflow_run_id, firing.scheduled_at)
        with translated():
            claim = await self._slots.claim(job.id, slot, holder)
        if claim.refusal is not None:
            return Answer(None, slot, claim.refusal.value, claim.reason)
        try:
            profile = self._profile(claim.job)
        except (InvalidInput, NotFound) as error:
            failure = Failure("profile", f"The job's profile can't be used: {error}")
            await self.end(EndInput(firing, slot, SlotStatus.FAILED, failure))
            return Answer(None, slot, "failed", failure.message)
        return Answer(Held(slot, claim.attempt, profile.executor is Executor.MEMORY), slot)

    def _profile(self, job: Job) -> Profile:
        if isinstance(job.profile, str):
            return self._catalog.get(job.profile)
        reading = profile_format.read(dict(job.profile))
        self._deprecations.report(f"job {job.id}", reading.deprecated)
        return reading.profile

    @activity.defn(name="automation.next_run")
    async def next_run(self, input: WindowInput) -> JobRun | None:
        """Accept the run that reads this window; None when there is nothing left to read."""
        with translated():
            assigned = await self._windows.assigned(input.job_id, input.held.slot)
            window = await self._windows.open(input.place, assigned, reads=input.held.reads)
            if window is None:
                return None
            new = _new_run(input, assigned, window)
            if window.status == "open":
                await self._report_unknown(input, assigned)
                await self._accept(new)
        return JobRun(
            key=window.run_key,
            owner_id=assigned.owner_id,
            thread_id=new.thread_id,
            run_id=new.run_id,
            profile=new.request.profile,
            user_messages=window.user_messages,
            done=window.status == "done",
        )

    async def _accept(self, new: NewRun) -> None:
        try:
            accepted = await self._runs.accept(new)
        except SessionBusy as error:  # with a run of an earlier attempt that is just being stopped
            raise ApplicationError(
                str(error),
                type="session_busy",
                next_retry_delay=_WAIT,
                category=ApplicationErrorCategory.BENIGN,
            ) from error
        if accepted.started is not None:
            await self._stream.publish(accepted.run.key, [accepted.started])

    async def _report_unknown(self, input: WindowInput, assigned: Assigned) -> None:
        """Tools that were registered when the job was written and are no longer: they admit
        nothing, and that is to be seen."""
        for name in unknown_names(assigned.config.tools, self._registry.specs):
            entry = AuditEntry(
                assigned.owner_id,
                "tool_denied",
                tool=name,
                origin=Origin.AUTOMATION,
                dedupe_key=f"job_tool:{input.place.run_id}:{name}",
                detail={
                    "job_id": str(input.job_id),
                    "slot": input.held.slot,
                    "refused_by": Denier.DECLARED,
                    "reason": "not registered",
                },
            )
            await self._audit.append(entry)

    @activity.defn(name="automation.await_run")
    async def await_run(self, run_key: UUID) -> None:
        """Wait until a run is over that somebody else has started, as the reconciler may have."""
        while not (await self._runs.get_by_key(run_key)).status.ended:
            activity.heartbeat()
            await asyncio.sleep(_WAIT.total_seconds())

    @activity.defn(name="automation.close")
    async def close(self, input: WindowInput) -> Failure | None:
        """Record what became of this window's run; why, if it did not complete."""
        window = await self._windows.get(input.place)
        assert window is not None
        run = await self._runs.get_by_key(window.run_key)
        if not run.status.ended:  # its workflow is over all the same
            await end_lost(self._runs, self._stream, run.key)
            run = await self._runs.get_by_key(run.key)
        if run.status is RunStatus.COMPLETED:
            await self._windows.close(input.place)
            return None
        code = run.error_code or run.status.value
        message = run.error_message or f"The run was {run.status}."
        await self._windows.close(input.place, (code, message))
        return Failure(code, message)

    @activity.defn(name="automation.end")
    async def end(self, input: EndInput) -> None:
        """End the slot that this firing holds. Safe to repeat."""
        failure = input.failure
        error = None if failure is None else (failure.code, failure.message)
        job_id, holder = input.firing.job_id, input.firing.workflow_run_id
        failed = await self._slots.finish(job_id, input.slot, holder, input.status, error)
        if failure is not None and failed is not None:
            say = _log.error if failed >= ALERT_AFTER else _log.warning
            say("slot_failed", job=str(job_id), slot=input.slot, code=failure.code, in_a_row=failed)


def _new_run(input: WindowInput, assigned: Assigned, window: Window) -> NewRun:
    """The request of this window's run: the same whenever it is asked for."""
    profile: Any = assigned.profile
    named = isinstance(profile, str)
    run_id = input.place.run_id
    request = RunRequest(
        profile=profile if named else None,
        inline=None if named else profile_document(profile),
        tools=assigned.config.tools,
        window=window.parts,
        job_id=input.job_id,
        slot=input.held.slot,
    )
    prompt = Message(run_id, Role.USER, assigned.config.prompt, hidden_from_user=True)
    return NewRun(
        owner_id=assigned.owner_id,
        thread_id=job_thread(input.job_id),
        run_id=run_id,
        request=request,
        messages=(prompt,),
        origin=Origin.AUTOMATION,
        session_type=SessionType.AUTOMATION,
    )
