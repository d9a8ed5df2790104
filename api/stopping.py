"""Stopping a run: whoever asks, and whatever state it is in."""

from contextlib import suppress

from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from activities.ending import end_lost
from activities.reconcile import workflow_status
from adapters.postgres.audit import AuditEntry
from api.state import Services
from domain.events import RunStatus
from domain.identity import Caller
from domain.ids import run_workflow_id
from domain.runs import Ending, Run


async def stop(services: Services, who: Caller, run: Run, reason: str, **detail: str) -> None:
    """Ask an active run to stop, on the record. Raises RPCError when the engine is away."""
    await services.audit.append(
        AuditEntry(
            owner_id=run.owner_id,
            actor_id=who.id,
            kind="run_interrupt_requested",
            run_key=run.key,
            session_key=run.session_key,
            detail={"reason": reason, **detail},
        )
    )
    if run.status is RunStatus.QUEUED and await _taken_out(services, run, reason):
        return
    while not await _signalled(services, run, reason):
        status = await workflow_status(services.temporal, run.key)
        if status is WorkflowExecutionStatus.RUNNING:
            continue  # it was started while we asked
        if status is WorkflowExecutionStatus.COMPLETED:
            return  # it ended while we asked
        if status is not None or run.status not in (RunStatus.ACCEPTED, RunStatus.QUEUED):
            await end_lost(services.runs, services.stream, run.key)
            return
        await end_unstarted(services, run, reason)
        return


async def _taken_out(services: Services, run: Run, reason: str) -> bool:
    """End a run in the queue. Its workflow may not begin for long, so it is not asked."""
    ending = Ending(RunStatus.INTERRUPTED, "cancelled", reason)
    recorded = await services.runs.end_queued(run.key, ending)
    if recorded is None:
        return False
    await services.stream.publish(run.key, [recorded])
    handle = services.temporal.get_workflow_handle(run_workflow_id(run.key))
    with suppress(RPCError):  # it finds out by itself when it begins
        await handle.terminate("The run was stopped before it began.")
    return True


async def _signalled(services: Services, run: Run, reason: str) -> bool:
    """False: there is no workflow that could be told."""
    try:
        handle = services.temporal.get_workflow_handle(run_workflow_id(run.key))
        await handle.signal("interrupt", reason)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


async def end_unstarted(services: Services, run: Run, reason: str) -> None:
    """End a run whose workflow was never started."""
    ending = Ending(RunStatus.INTERRUPTED, "cancelled", reason)
    recorded, now = await services.runs.finish(run.key, ending)
    if recorded is not None and now:
        await services.stream.publish(run.key, [recorded])
