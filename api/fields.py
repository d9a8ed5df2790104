"""Types of what requests carry, for more than one route."""

from typing import Annotated, Any

from pydantic import BeforeValidator

from domain.text import clean


def _cleaned(value: Any) -> Any:
    """Before Pydantic looks at it: it refuses lone surrogates."""
    return clean(value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_cleaned)]
"""A text that every store takes: NUL and lone surrogates are replaced."""
