"""Taking a purged fact out of what tools and memory runs left behind. Pure.

What people and the assistant said to each other stays: it is the conversation. What is redacted is
the machinery's own: arguments and results of memory tools, and the operations of a memory run.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

MARK = "[purged]"
_GONE = {"purged": True}
_SHORTEST = 3  # characters of a value that is looked for inside a text


@dataclass(frozen=True, slots=True)
class Gone:
    """What is to be gone. `is_key`: of a scope (None: not said) and a key, however spelled;
    `ids`: of all versions; `values`: of all versions and candidates."""

    is_key: Callable[[str | None, str], bool]
    ids: frozenset[str]
    values: frozenset[str]

    def inside(self, text: str) -> bool:
        folded = text.casefold()
        return any(
            value.casefold() == folded or (len(value) >= _SHORTEST and value.casefold() in folded)
            for value in self.values
        )


def redacted(text: str, gone: Gone) -> str:
    """A JSON text without what is gone, as JSON; any other text is a mark, if it has any of it."""
    try:
        document = json.loads(text)
    except ValueError:
        named = any(id in text for id in gone.ids)
        return MARK if named or gone.inside(text) else text
    clean = _walked(document, gone)
    return text if clean == document else json.dumps(clean, ensure_ascii=False)


def _walked(value: Any, gone: Gone) -> Any:
    match value:
        case str():
            return MARK if gone.inside(value) or value in gone.ids else value
        case list():
            return [_walked(item, gone) for item in cast("list[Any]", value)]
        case dict():
            members = cast("dict[str, Any]", value)
            if _names(members, gone):
                return dict(_GONE)
            return {name: _walked(item, gone) for name, item in members.items()}
        case _:
            return value


def _names(members: dict[str, Any], gone: Gone) -> bool:
    key, scope = members.get("key"), members.get("scope")
    if isinstance(key, str) and gone.is_key(scope if isinstance(scope, str) else None, key):
        return True
    return members.get("memory_id") in gone.ids
