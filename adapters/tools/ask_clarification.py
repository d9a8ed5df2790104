"""ask_clarification: the question a run must ask before it can go on."""

import json

from pydantic import Field

from adapters.tools.registry import Arguments, Tool, ToolContext, declare
from domain.tools import ToolKind

_DESCRIPTION = (
    "Ask the user for what is missing when you cannot go on without it, never for confirmation "
    "of what is already clear. Call it alone."
)


class AskClarification(Arguments):
    question: str = Field(min_length=1, max_length=2_000, description="One question")
    options: list[str] = Field(default=[], max_length=10, description="Answers to choose from")


def ask_clarification() -> Tool[AskClarification]:
    async def run(arguments: AskClarification, context: ToolContext) -> str:
        # A run can't wait for a person yet, so the question becomes its answer.
        return json.dumps(
            {
                "status": "ask_in_answer",
                "question": arguments.question,
                "options": arguments.options,
                "instruction": "Nobody has been asked yet. End your turn now: make this question "
                "(with its options, if any) your whole answer and call no more tools. "
                "The user's reply arrives as their next message.",
            },
            ensure_ascii=False,
        )

    return declare(
        "ask_clarification",
        _DESCRIPTION,
        AskClarification,
        run,
        kind=ToolKind.INTERACTION,
        parallel_safe=False,
        owner_scoped=False,
    )
