"""offer_alternatives: the work is beyond what the agent can do; what it could do instead."""

from pydantic import Field

from adapters.tools.registry import Arguments, Tool, declare
from adapters.tools.unasked import unasked
from domain.checkpoints import ANSWER, Action, ActionType, Question, Scenario
from domain.tools import ToolKind

_DESCRIPTION = (
    "Say that what is asked for is beyond your tools, and offer what you could do instead. "
    "The result is what the user chose; nobody decides for them."
)


class OfferAlternatives(Arguments):
    limit: str = Field(min_length=1, max_length=2_000, description="What you can't do, and why")
    alternatives: list[str] = Field(
        min_length=1, max_length=6, description="What you can do instead"
    )


def offer_alternatives() -> Tool[OfferAlternatives]:
    def ask(arguments: OfferAlternatives) -> Question:
        choices = tuple(
            Action(f"alternative_{place}", label[:500])
            for place, label in enumerate(arguments.alternatives, 1)
        )
        return Question(
            scenario=Scenario.CAPABILITY,
            title="Beyond what the agent can do",
            body=arguments.limit,
            actions=(*choices, Action(ANSWER, "Something else", ActionType.TEXT_INPUT)),
        )

    return declare(
        "offer_alternatives",
        _DESCRIPTION,
        OfferAlternatives,
        unasked,
        kind=ToolKind.INTERACTION,
        parallel_safe=False,
        owner_scoped=False,
        ask=ask,
    )
