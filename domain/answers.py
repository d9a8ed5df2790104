"""What a model reads of a question that it put to a person. Pure."""

from typing import Any

from domain.checkpoints import CANCELLED, SKIP, Checkpoint, OnTimeout, State

_DECIDE = "Nobody answered. Decide yourself, and say in your answer what you assumed."
_WITHOUT = "Nobody gave it. Go on without it if you can, and say what was left out."


def answer_result(asked: Checkpoint) -> dict[str, Any]:
    """The result of the call that asked."""
    if asked.state is State.ANSWERED and asked.action not in (CANCELLED, SKIP):
        return _answered(asked)
    status = "timed_out" if asked.state is State.EXPIRED else "skipped"
    default = asked.context.get("default")
    if default is not None:
        return {"status": status, "value": default, "note": "This is the default you named."}
    instruction = _DECIDE if asked.on_timeout is OnTimeout.DECIDE else _WITHOUT
    return {"status": status, "instruction": instruction}


def _answered(asked: Checkpoint) -> dict[str, Any]:
    if asked.secret_for is not None:
        name = asked.context.get("name")
        note = f"Only {asked.secret_for} can read it, under the name {name!r}, in this run."
        return {"status": "stored", "name": name, "note": note}
    chosen = next((action.label for action in asked.actions if action.id == asked.action), None)
    said = asked.input if isinstance(asked.input, str) and asked.input else chosen
    return {"status": "answered", "answer": said}
