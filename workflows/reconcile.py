"""The one reconciler of runs: sweeps, rests, sweeps again, for as long as there is an engine."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.reconcile import ReconcileActivities, SweepInput
    from workflows.options import quick_local

RECONCILE_ID = "reconcile/runs"
_OVERLAP = timedelta(seconds=30)
"""The engine's list may lag; what closed this long before the last sweep is looked at again."""


@dataclass(frozen=True, slots=True)
class ReconcileRunsInput:
    every_s: float
    since: datetime | None = None  # carried over continue-as-new


@workflow.defn
class ReconcileRunsWorkflow:
    @workflow.run
    async def run(self, input: ReconcileRunsInput) -> None:
        since = input.since or workflow.now()
        while not workflow.info().is_continue_as_new_suggested():
            began = workflow.now()
            await workflow.execute_local_activity_method(
                ReconcileActivities.sweep,
                SweepInput(since - _OVERLAP),
                **quick_local("compare runs with their workflows"),
            )
            since = began
            await workflow.sleep(input.every_s, summary="until the next sweep")
        workflow.continue_as_new(replace(input, since=since))
