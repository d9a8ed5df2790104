"""Compare jobs with their Schedules, once: a Schedule of its own starts it every few minutes."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from activities.jobs import Counts, JobReconciler
    from domain.ids import RECONCILE_JOBS


@workflow.defn(name=RECONCILE_JOBS)
class ReconcileJobsWorkflow:
    @workflow.run
    async def run(self) -> Counts:
        """What was found and done. A sweep that fails is begun anew, which is harmless."""
        return await workflow.execute_activity_method(
            JobReconciler.reconcile,
            summary="compare jobs with their Schedules",
            start_to_close_timeout=timedelta(hours=1),
            heartbeat_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_interval=timedelta(minutes=1), maximum_attempts=5),
        )
