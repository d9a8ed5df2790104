"""ask_clarification: the question a run must ask before it can go on."""

from pydantic import Field

from adapters.tools.registry import Arguments, Tool, declare
from adapters.tools.unasked import unasked
from domain.checkpoints import ANSWER, Action, ActionType, Question, Scenario
from domain.tools import ToolKind

_DESCRIPTION = (
    "Ask the user for what is missing when you cannot go on without it, never for confirmation "
    "of what is already clear. Call it alone; the result is the answer."
)


class AskClarification(Arguments):
    question: str = Field(min_length=1, max_length=2_000, description="One question")
    options: list[str] = Field(default=[], max_length=10, description="Answers to choose from")


def ask_clarification() -> Tool[AskClarification]:
    def ask(arguments: AskClarification) -> Question:
        choices = tuple(
            Action(f"option_{place}", label[:500])
            for place, label in enumerate(arguments.options, 1)
        )
        return Question(
            scenario=Scenario.CLARIFICATION,
            title="Clarification",
            body=arguments.question,
            actions=(*choices, Action(ANSWER, "Answer", ActionType.TEXT_INPUT)),
        )

    return declare(
        "ask_clarification",
        _DESCRIPTION,
        AskClarification,
        unasked,
        kind=ToolKind.INTERACTION,
        parallel_safe=False,
        owner_scoped=False,
        ask=ask,
    )
