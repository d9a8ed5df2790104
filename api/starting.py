"""From an accepted request to a running workflow, with nothing half-done in between."""

from datetime import UTC, datetime

import structlog
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from activities.ending import end_lost
from activities.reconcile import GRACE, workflow_status
from activities.start import start_run
from adapters.postgres.acceptance import Accepted
from api.busy import make_way
from api.problems import unavailable
from api.state import Services
from api.stopping import end_unstarted
from domain.errors import NotFound, SessionBusy
from domain.events import RunStatus
from domain.identity import Caller
from domain.runs import NewRun, OnBusy, Run

_TURNS = 30
"""How often a request that may stop others finds somebody in its way again before it gives up."""

_log = structlog.get_logger(__name__)


async def start(services: Services, who: Caller, new: NewRun) -> tuple[Run, bool]:
    """Accept and start a run, or find it if it is known; (run, whether it is new).

    A session at work is dealt with as `new.on_busy` says. Raises SessionBusy, RunConflict,
    InvalidInput, and a 503 when the engine can't be reached; the acceptance is then withdrawn,
    so the same request may simply be sent again.
    """
    accepted = await _accept(services, who, new)
    run = accepted.run
    if not accepted.created:
        return run, False
    if reason := await services.runs.stopped_early(run.key):
        await end_unstarted(services, run, reason)
        return await services.runs.get_by_key(run.key), True
    if accepted.started is not None:
        await services.stream.publish(run.key, [accepted.started])
    try:
        await start_run(services.temporal, run, services.settings.run_queue)
    except (RPCError, OSError) as error:
        _log.warning("run_not_started", run_key=str(run.key), error=repr(error))
        if await services.runs.withdraw(run.key):
            await services.stream.forget(run.key)
            # Whatever it said: an engine that has just come up doesn't know its namespaces yet.
            raise unavailable("The workflow engine can't be reached. Try again.") from error
    return run, True


async def _accept(services: Services, who: Caller, new: NewRun) -> Accepted:
    if new.not_before is not None:
        return await services.runs.queue(new)
    for _ in range(_TURNS):
        try:
            return await services.runs.accept(new)
        except SessionBusy as busy:
            if await _freed(services, new, busy.active_run_id):
                continue
            match new.on_busy:
                case OnBusy.REJECT:
                    raise
                case OnBusy.ENQUEUE:
                    return await services.runs.queue(new)
                case OnBusy.INTERRUPT | OnBusy.ROLLBACK:
                    await make_way(services, who, new, busy)
    return await services.runs.accept(new)


async def _freed(services: Services, new: NewRun, run_id: str) -> bool:
    """Whether the session is free after all: the run in its way has ended, or its workflow has."""
    try:
        run = await services.runs.get(new.owner_id, run_id)
    except NotFound:
        return True
    if run.status.ended:
        return True
    if datetime.now(UTC) - run.created_at < GRACE:
        return False
    try:
        status = await workflow_status(services.temporal, run.key)
    except (RPCError, OSError):
        return False
    if status is WorkflowExecutionStatus.RUNNING:
        return False
    if status is None and run.status in (RunStatus.ACCEPTED, RunStatus.QUEUED):
        return False  # it waits to be started, the reconciler will
    await end_lost(services.runs, services.stream, run.key)
    return True
