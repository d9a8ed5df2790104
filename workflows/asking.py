"""What people may say to a workflow that asks them: by update, by signal, and what is open."""

from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from domain.checkpoints import Answer, AnswerInput, AnswerResult, Via
    from domain.desk import Raised
    from workflows.desk import Desk, refused


class Asking:
    """A workflow that has a desk."""

    _desk: Desk

    @workflow.update
    async def answer(self, input: AnswerInput) -> AnswerResult:
        """Answer questions, all of them or none. Fails with a type of domain `Refused`."""
        return await self._desk.answer(input)

    @answer.validator
    def check_answer(self, input: AnswerInput) -> None:
        if refusal := self._desk.refusal(input):
            raise refused(refusal)

    @workflow.update
    async def ask(self, raised: Raised) -> None:
        """Have a question asked, or a notice given, that whoever supervises the run wrote down.
        It comes before the run's next step."""
        self._desk.add((raised,))

    @workflow.signal
    async def respond(self, checkpoint_id: str = "", action: str = "", input: str = "") -> None:
        """The same for operators. Unknown, late and repeated ones change nothing."""
        given = AnswerInput((Answer(checkpoint_id, action, text=input),), Via.SIGNAL)
        try:
            await self._desk.answer(given)
        except ApplicationError as error:
            workflow.logger.warning("answer_ignored", extra={"why": error.type})

    @workflow.query
    def checkpoints(self) -> list[dict[str, Any]]:
        """The questions that are open or wait, without their texts."""
        return self._desk.pending()
