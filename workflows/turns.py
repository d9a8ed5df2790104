"""Taking turns in a session: a queued run waits until it is let in, an ended one calls the next."""

from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from domain.ids import run_workflow_id
    from domain.runs import Ended
    from workflows import steps

_LOOK_AGAIN = timedelta(seconds=5)
"""Nobody calls a run whose predecessor was stopped from outside: it looks for itself."""


class Queueing:
    """A workflow that may have to wait for its turn."""

    _called = False

    @workflow.signal
    def admit(self) -> None:
        """It may be its turn now. At any other time this changes nothing."""
        self._called = True

    async def _let_in(self, run_key: UUID) -> bool:
        """Wait until it is this run's turn. False: there is so much history that it should go on
        in a fresh one."""
        while not await steps.admit(run_key):
            if workflow.info().is_continue_as_new_suggested():
                return False
            with suppress(TimeoutError):
                await workflow.wait_condition(lambda: self._called, timeout=_LOOK_AGAIN)
            self._called = False
        return True


async def call_next(ended: Ended) -> None:
    """Tell the run whose turn it is. If that fails it finds out by itself."""
    if ended.next_run is None:
        return
    waiting = workflow.get_external_workflow_handle(run_workflow_id(ended.next_run))
    with suppress(ApplicationError):
        await waiting.signal("admit")
