"""Stop now, at any moment: the one signal, and work that ends with it."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from domain.events import RunStatus
    from domain.runs import Ending


class Interruptible:
    """A workflow whose work may be stopped, and what is done kept."""

    _interrupted: str | None = None

    @workflow.signal
    def interrupt(self, reason: str = "") -> None:
        """Stop now and keep what is done. A second one, or one that comes late, changes nothing."""
        self._interrupted = self._interrupted or reason or "Interrupted."

    async def _unless_interrupted(self, doing: Coroutine[Any, Any, Ending]) -> Ending:
        """Work until there is an end, or until somebody says stop. Raises what the work raises."""
        work = asyncio.create_task(doing)
        try:
            await workflow.wait_condition(lambda: work.done() or self._interrupted is not None)
        except asyncio.CancelledError:  # of the whole workflow: what was said is kept first
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise
        if self._interrupted is not None and not work.done():
            work.cancel()
        try:
            return await work
        except (asyncio.CancelledError, ActivityError, ApplicationError):
            # Also if a worker died and nobody saw the cancel.
            if self._interrupted is None:
                raise
            return Ending(RunStatus.INTERRUPTED, "cancelled", self._interrupted)
