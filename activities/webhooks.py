"""Deliver the webhook of a run."""

from dataclasses import dataclass
from uuid import UUID

from temporalio import activity
from temporalio.exceptions import ApplicationError

from adapters.postgres.runs import RunStore
from adapters.postgres.webhooks import WebhookStore
from adapters.webhook_sender import WebhookSender
from domain.errors import ErrorCode, Permanent, Transient
from domain.webhooks import document

ATTEMPTS = 14  # with doubling pauses from 5 s, at most three hours each: about a day


@dataclass(frozen=True, slots=True)
class WebhookInput:
    run_key: UUID


class WebhookActivities:
    def __init__(
        self, *, webhooks: WebhookStore, runs: RunStore, sender: WebhookSender | None
    ) -> None:
        self._webhooks = webhooks
        self._runs = runs
        self._sender = sender

    @activity.defn(name="webhooks.deliver")
    async def deliver(self, input: WebhookInput) -> bool:
        """Try once; Temporal tries again. True: it was taken, now or before."""
        hook = await self._webhooks.get(input.run_key)
        if hook is None or hook.status != "pending":
            return hook is not None and hook.status == "delivered"
        attempt = activity.info().attempt
        await self._webhooks.started(input.run_key)
        run = await self._runs.get_by_key(input.run_key)
        try:
            if self._sender is None:
                raise Transient("VARVE_WEBHOOK_SECRET is not set", ErrorCode.INTERNAL)
            await self._sender.send(hook.url, f"msg_{run.key.hex}", document(run))
        except (Transient, Permanent) as error:
            last = isinstance(error, Permanent) or attempt >= ATTEMPTS
            status = "failed" if last else "pending"
            await self._webhooks.tried(input.run_key, attempt, str(error), status)
            raise ApplicationError(str(error), type=error.code, non_retryable=last) from error
        await self._webhooks.tried(input.run_key, attempt, None, "delivered")
        return True
