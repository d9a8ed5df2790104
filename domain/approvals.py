"""Whether a tool call may run: the question to a person, and what the answer means. Pure."""

from domain.checkpoints import (
    APPROVE,
    APPROVE_SESSION,
    CANCELLED,
    DENY,
    EDIT,
    Action,
    ActionType,
    Checkpoint,
    Question,
    Scenario,
    State,
)
from domain.tools import ToolCall

_SHOWN_CHARACTERS = 4_000  # of the arguments; all of them are with the checkpoint

YES = frozenset({APPROVE, APPROVE_SESSION, EDIT})


def approval(call: ToolCall, why: str) -> Question:
    """The question whether this call may run."""
    shown = call.arguments.strip() or "{}"
    if len(shown) > _SHOWN_CHARACTERS:
        shown = shown[:_SHOWN_CHARACTERS] + "…"
    return Question(
        scenario=Scenario.HIGH_RISK,
        title=f"Approve {call.name}",
        body=f"May {call.name} run? {why}\n\n{shown}",
        actions=(
            Action(APPROVE, "Approve"),
            Action(APPROVE_SESSION, "Approve for this session"),
            Action(EDIT, "Change the arguments", ActionType.TEXT_INPUT),
            Action(DENY, "Refuse", ActionType.TEXT_INPUT),
        ),
    )


def why_not(asked: Checkpoint | None) -> str:
    """What the model is told of a call that people did not let run."""
    if asked is None or asked.state.pending:
        return "a person has to approve this call, and has not"
    if asked.state is State.EXPIRED:
        return "nobody approved this call in time, so it was refused"
    if asked.action == CANCELLED:
        return "the question whether this call may run was left unanswered, so it was refused"
    given = f": {asked.input}" if isinstance(asked.input, str) and asked.input.strip() else ""
    return f"a person refused this call{given}"


REFUSED_BEFORE = "a person refused the same call before in this run; it was not asked about again"
