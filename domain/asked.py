"""Questions that are not a tool's: what a run costs, and what its supervisor has to say. Pure."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from domain.checkpoints import (
    ANSWER,
    APPROVE,
    CONTINUE,
    MODIFY,
    STOP,
    Action,
    ActionType,
    Question,
    Scenario,
)

SUPERVISED: Mapping[Scenario, tuple[str, tuple[Action, ...]]] = {
    Scenario.CLARIFICATION: (
        "Clarification",
        (Action(ANSWER, "Answer", ActionType.TEXT_INPUT),),
    ),
    Scenario.CAPABILITY: (
        "Beyond what the agent can do",
        (
            Action(CONTINUE, "Go on all the same"),
            Action(ANSWER, "Something else", ActionType.TEXT_INPUT),
            Action(STOP, "Stop"),
        ),
    ),
    Scenario.LOW_CONFIDENCE: ("A result with low confidence", ()),
    Scenario.MISSING_INPUT: (
        "Input needed",
        (Action(ANSWER, "Give it", ActionType.TEXT_INPUT), Action("skip", "Go on without it")),
    ),
    Scenario.LOW_QUALITY: ("A result of low quality", ()),
    Scenario.RETRIES_EXHAUSTED: (
        "It failed again and again",
        (
            Action(CONTINUE, "Go on with what there is"),
            Action(ANSWER, "Try it this way", ActionType.TEXT_INPUT),
            Action(STOP, "Stop"),
        ),
    ),
    Scenario.COST: ("Spending", (Action(CONTINUE, "Go on"), Action(STOP, "Stop"))),
    Scenario.MILESTONE: (
        "Milestone",
        (
            Action(APPROVE, "Approve"),
            Action(MODIFY, "Change it", ActionType.TEXT_INPUT),
            Action(STOP, "Stop"),
        ),
    ),
}
"""What a supervisor may raise, with the title and the actions it has unless others are given."""


def cost_question(spent_micro_usd: int, limit_usd: str) -> Question:
    """Whether a run that has cost so much may go on."""
    spent = f"{Decimal(spent_micro_usd) / 1_000_000:.4f}"
    title, actions = SUPERVISED[Scenario.COST]
    context: dict[str, Any] = {"spent_usd": spent, "ask_cost_usd": limit_usd}
    body = f"This run has cost ${spent}; people are asked from ${limit_usd} on. May it go on?"
    return Question(Scenario.COST, title, body, actions, context)
