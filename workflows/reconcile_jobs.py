"""Compare jobs with their Schedules, once: a Schedule of its own starts it every few minutes."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.jobs import Counts, JobReconciler
    from activities.memory import FactActivities, IndexFactsInput
    from domain.ids import RECONCILE_JOBS

INDEXES_FACTS = "indexes-facts"
_BATCHES = 20  # of facts, in one sweep


@workflow.defn(name=RECONCILE_JOBS)
class ReconcileJobsWorkflow:
    @workflow.run
    async def run(self) -> Counts:
        """What was found and done. A sweep that fails is begun anew, which is harmless."""
        counts = await workflow.execute_activity_method(
            JobReconciler.reconcile,
            summary="compare jobs with their Schedules",
            start_to_close_timeout=timedelta(hours=1),
            heartbeat_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_interval=timedelta(minutes=1), maximum_attempts=5),
        )
        if workflow.patched(INDEXES_FACTS):
            await self._index_facts()
        return counts

    async def _index_facts(self) -> None:
        """Facts that words or vectors do not find yet; the next sweep goes on with the rest."""
        try:
            for _ in range(_BATCHES):
                if not await workflow.execute_activity_method(
                    FactActivities.index,
                    IndexFactsInput(),
                    summary="index facts",
                    start_to_close_timeout=timedelta(minutes=5),
                    retry_policy=RetryPolicy(maximum_attempts=3),
                ):
                    return
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("facts_not_indexed", extra={"error": str(error.cause)})
