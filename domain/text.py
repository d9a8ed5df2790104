"""Text that any store and any encoder accepts. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean(text: str) -> str:
    """Replace NUL (PostgreSQL refuses it) and lone surrogates (UTF-8 refuses them) by U+FFFD."""
    return _UNSTORABLE.sub("�", text) if _UNSTORABLE.search(text) else text


def cleaned(value: Any) -> Any:
    """What JSON has, with every text and every name in it clean."""
    match value:
        case str():
            return clean(value)
        case list() | tuple():
            return [cleaned(item) for item in cast("Sequence[Any]", value)]
        case dict():
            members = cast("Mapping[str, Any]", value)
            return {clean(key): cleaned(item) for key, item in members.items()}
        case _:
            return value
