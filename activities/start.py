"""Start a run's workflow: the one way, for the API and for whoever finds it was never started."""

from datetime import UTC, datetime, timedelta

from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.attributes import at_start
from domain.events import RunStatus
from domain.ids import AGENT_RUN, run_workflow_id
from domain.runs import AgentRunInput, Run

_RPC_TIMEOUT = timedelta(seconds=5)
TASK_TIMEOUT = timedelta(seconds=5)
"""A worker that dies in the middle of a workflow task is waited for this long, not ten seconds."""

RUN_REUSE = WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY
"""A workflow that failed may be started again under its id: its run row decides whether there is
work to do."""


async def start_run(client: Client, run: Run, queue: str) -> None:
    """Start it unless it is there. Raises RPCError when the engine can't be reached.

    By name, since what runs it may live in another process and a later version.
    """
    delay = None if run.not_before is None else run.not_before - datetime.now(UTC)
    try:
        await client.start_workflow(
            AGENT_RUN,
            AgentRunInput(run.key, queued=run.status is RunStatus.QUEUED),
            start_delay=delay if delay is not None and delay > timedelta() else None,
            id=run_workflow_id(run.key),
            task_queue=queue,
            id_reuse_policy=RUN_REUSE,
            search_attributes=at_start(run),
            static_summary=f"{run.origin} run {run.run_id} in session {run.thread_id}"[:200],
            task_timeout=TASK_TIMEOUT,
            rpc_timeout=_RPC_TIMEOUT,
        )
    except WorkflowAlreadyStartedError:
        return
