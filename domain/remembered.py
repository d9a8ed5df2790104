"""Remembered facts as a model is told them. Pure."""

from domain.recall import Recalled, RecallStatus

REMEMBERED = "Remembered facts that may bear on the current message (said by the user earlier):"
MEMORY_AWAY = (
    "What is remembered about the user could not be read just now. Something may well be known: "
    "do not conclude that nothing is, and say so if it matters."
)
_CHARACTERS = 500  # of a value; memory_search shows all of it


def remembered(recalled: Recalled) -> tuple[str, ...]:
    """Lines for the situation note; none if nothing was found."""
    if recalled.status is RecallStatus.FAILED:
        return (MEMORY_AWAY,)
    if not recalled.found:
        return ()
    facts = (found.fact for found in recalled.found)
    return (
        REMEMBERED,
        *(f"- {f.key}: {_line(f.value)} (since {f.stated_at.date().isoformat()})" for f in facts),
    )


def _line(text: str) -> str:
    """A fact is a line of its own: nothing in it can look like another, or like a rule."""
    line = " ".join(text.split())
    return line if len(line) <= _CHARACTERS else line[: _CHARACTERS - 1] + "…"
