"""The arguments of a call as data."""

import json
from typing import Any, cast

from domain.text import cleaned
from domain.tools import ToolCall


def parsed(call: ToolCall) -> dict[str, Any]:
    """Fit to be stored. Empty for none, and for what is no JSON object: such a call fails when it
    runs."""
    try:
        document: object = json.loads(call.arguments.strip() or "{}")
    except ValueError:
        return {}
    return cast("dict[str, Any]", cleaned(document)) if isinstance(document, dict) else {}
