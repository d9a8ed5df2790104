"""Runs whose row and workflow disagree: started if nobody did, ended if the workflow is gone."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog
from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from activities.ending import STOPPED, end_lost
from activities.start import start_run
from activities.webhooks import WebhookInput
from adapters.postgres.reconcile import ActiveRun, ReconcileStore
from adapters.postgres.runs import RunStore
from adapters.postgres.stateless import StatelessStore
from adapters.postgres.webhooks import WebhookStore
from adapters.stream import EventStream
from domain.events import RunStatus
from domain.ids import AGENT_RUN, WEBHOOK, run_key_of, run_workflow_id, webhook_workflow_id

_log = structlog.get_logger(__name__)

GRACE = timedelta(seconds=2)
"""A run younger than this is left to whoever is just starting or ending it."""
DESCRIBED_EACH_SWEEP = 50


@dataclass(frozen=True, slots=True)
class SweepInput:
    """`since`: when the last sweep began; workflows that closed after it are looked at."""

    since: datetime


@dataclass(frozen=True, slots=True)
class SweepResult:
    started: int  # runs that were accepted and had no workflow
    ended: int  # runs whose workflow was gone


class ReconcileActivities:
    """Needs the engine's client: what it compares the database with."""

    def __init__(
        self,
        *,
        client: Client,
        runs: RunStore,
        store: ReconcileStore,
        webhooks: WebhookStore,
        stateless: StatelessStore,
        keep: timedelta,
        stream: EventStream,
        run_queue: str,
    ) -> None:
        self._client = client
        self._runs = runs
        self._store = store
        self._webhooks = webhooks
        self._stateless = stateless
        self._keep = keep
        self._stream = stream
        self._queue = run_queue

    @activity.defn(name="reconcile.runs")
    async def sweep(self, input: SweepInput) -> SweepResult:
        """Compare in both directions, each in bounded work. Safe to repeat.

        What closed lately is found through the engine's list, one query for all runs; runs that
        nothing was heard of are asked about one by one, the longest unasked first.
        """
        before = datetime.now(UTC) - GRACE
        ended = await self._end_closed(input.since)
        started = 0
        for run in await self._store.quiet(before, DESCRIBED_EACH_SWEEP):
            what = await self._mend(run)
            started += what == "started"
            ended += what == "ended"
        await self._tell_of_ends(before)
        await self._stateless.forget(before - self._keep, DESCRIBED_EACH_SWEEP)
        if started or ended:
            _log.info("runs_reconciled", started=started, ended=ended)
        return SweepResult(started, ended)

    async def _tell_of_ends(self, before: datetime) -> None:
        """Start the delivery of webhooks. The workflow's id sees to it that it is one."""
        for key in await self._webhooks.due(before, DESCRIBED_EACH_SWEEP):
            with suppress(WorkflowAlreadyStartedError):
                await self._client.start_workflow(
                    WEBHOOK,
                    WebhookInput(key),
                    id=webhook_workflow_id(key),
                    task_queue=self._queue,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                )
            await self._webhooks.started(key)

    async def _end_closed(self, since: datetime) -> int:
        query = (
            f"WorkflowType = '{AGENT_RUN}' AND CloseTime > '{since.isoformat()}' AND "
            "ExecutionStatus IN ('Terminated', 'TimedOut', 'Failed', 'Canceled')"
        )
        keys = [run_key_of(found.id) async for found in self._client.list_workflows(query)]
        count = 0
        for key in await self._store.still_active(keys):
            count += await self._end(key, STOPPED)
        return count

    async def _mend(self, run: ActiveRun) -> str | None:
        status = await workflow_status(self._client, run.key)
        if status is None and run.status is RunStatus.ACCEPTED:
            await start_run(self._client, await self._runs.get_by_key(run.key), self._queue)
            return "started"
        if status is WorkflowExecutionStatus.RUNNING:
            return None
        reason = STOPPED if status else "The run's workflow is gone."
        return "ended" if await self._end(run.key, reason) else None

    async def _end(self, key: UUID, reason: str) -> bool:
        return await end_lost(self._runs, self._stream, key, reason)


async def workflow_status(client: Client, key: UUID) -> WorkflowExecutionStatus | None:
    """The state of a run's workflow; None if the engine knows no such workflow."""
    try:
        described = await client.get_workflow_handle(run_workflow_id(key)).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    return described.status
