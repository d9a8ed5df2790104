"""The windows of a slot, one by one: cut, run, closed. When there are no more is the slot's end."""

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ChildWorkflowError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from activities.attributes import at_start
    from activities.automation import AutomationActivities, WindowInput
    from activities.start import RUN_REUSE, TASK_TIMEOUT
    from domain.automation import Failure, JobRun
    from domain.ids import AGENT_RUN, run_workflow_id
    from domain.runs import AgentRunInput
    from workflows.options import quick_local


class WindowFailed(Exception):
    """The run of a window did not complete."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


async def read(window: WindowInput) -> bool:
    """Run this window; False when there is nothing left to read. Raises WindowFailed."""
    run = await workflow.execute_local_activity_method(
        AutomationActivities.next_run, window, **quick_local(f"cut window {window.number}")
    )
    if run is None:
        return False
    held = window.held
    workflow.set_current_details(
        f"slot {held.slot}, attempt {held.attempt}: window {window.number}, "
        f"{run.user_messages} user messages"
    )
    if run.done:
        return True
    await _run(run, window)
    failure = await workflow.execute_local_activity_method(
        AutomationActivities.close, window, **quick_local(f"close window {window.number}")
    )
    if failure is not None:
        raise WindowFailed(failure)
    return True


async def _run(run: JobRun, window: WindowInput) -> None:
    """The run itself; how it went is read from its row."""
    try:
        await workflow.execute_child_workflow(
            AGENT_RUN,
            AgentRunInput(run.key),
            id=run_workflow_id(run.key),
            id_reuse_policy=RUN_REUSE,
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
            search_attributes=at_start(run),
            static_summary=f"job {window.job_id}, slot {window.held.slot}, window {window.number}",
            task_timeout=TASK_TIMEOUT,
        )
    except ChildWorkflowError as error:
        if is_cancelled_exception(error):
            raise asyncio.CancelledError from error
    except WorkflowAlreadyStartedError:  # the reconciler took it for a run nobody had started
        await workflow.execute_activity_method(
            AutomationActivities.await_run,
            run.key,
            summary=f"wait for window {window.number}",
            start_to_close_timeout=timedelta(days=1),
            heartbeat_timeout=timedelta(seconds=20),
            retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=30)),
        )
