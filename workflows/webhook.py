"""Tell somebody of a run's end, for a day if need be. Beside the run, which does not wait."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from activities.webhooks import ATTEMPTS, WebhookActivities, WebhookInput
    from domain.ids import WEBHOOK


@workflow.defn(name=WEBHOOK)
class WebhookWorkflow:
    @workflow.run
    async def run(self, input: WebhookInput) -> bool:
        return await workflow.execute_activity_method(
            WebhookActivities.deliver,
            input,
            summary="tell of the run's end",
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(
                initial_interval=timedelta(seconds=5),
                maximum_interval=timedelta(hours=3),
                maximum_attempts=ATTEMPTS,
            ),
        )
