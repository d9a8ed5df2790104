"""The reference page of the tools, made from their declarations.

`python -m adapters.tools.reference` writes it to standard output; a test holds
docs/reference/tools.md to it.
"""

import asyncio
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import asyncpg

from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool
from adapters.tools.catalog import built_in
from domain.tools import ToolSpec

_HEAD = """# Tools

Made from `adapters/tools/` by `python -m adapters.tools.reference`; do not edit.

A run may use a tool if its request, its profile and the operator's system list all admit it.
"""


def page(specs: Iterable[ToolSpec]) -> str:
    """The page in Markdown."""
    return _HEAD + "".join(f"\n{_section(spec)}" for spec in specs)


def _section(spec: ToolSpec) -> str:
    traits = [
        f"kind {spec.kind}",
        f"risk {spec.risk}",
        "safe to repeat" if spec.idempotent else "runs at most once",
        "beside other calls" if spec.parallel_safe else "one at a time",
        f"result up to {spec.result_tokens:,} tokens",
        f"{spec.timeout_s:g} s",
        *(["off unless the system list names it"] if spec.off_by_default else []),
    ]
    return "\n".join(
        [
            f"## `{spec.name}`",
            "",
            spec.description,
            "",
            f"*{' · '.join(traits)}*",
            *_table(spec),
            "",
        ]
    )


def _table(spec: ToolSpec) -> Iterator[str]:
    fields: Mapping[str, Mapping[str, Any]] = spec.parameters["properties"]
    required = spec.parameters.get("required", [])
    if fields:
        yield from ("", "| argument | type | | |", "| --- | --- | --- | --- |")
    for name, field in fields.items():
        need = "required" if name in required else _default(field)
        about = field.get("description", "")
        yield f"| `{name}` | {_type(field)}{_bounds(field)} | {need} | {about} |"


def _default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    return "optional" if value in (None, "", []) else f"default `{json.dumps(value)}`"


def _type(field: Mapping[str, Any]) -> str:
    options = field.get("anyOf", [field])
    return " or ".join(o["type"] for o in options if o["type"] != "null")


def _bounds(field: Mapping[str, Any]) -> str:
    """The limits of a field in words, those of its one non-null form if it may be null."""
    field = next((o for o in field.get("anyOf", []) if o["type"] != "null"), field)
    words = {
        "minimum": "from {:,}",
        "maximum": "to {:,}",
        "maxLength": "at most {:,} characters",
        "maxItems": "at most {:,}",
    }
    said = [words[key].format(field[key]) for key in words if key in field]
    return f", {' '.join(said)}" if said else ""


async def _main() -> None:
    # Declarations need no database: this pool is never connected.
    unconnected = cast(Pool, asyncpg.create_pool("postgresql://localhost"))
    sys.stdout.write(page(built_in(FactStore(unconnected)).specs.values()))


if __name__ == "__main__":
    asyncio.run(_main())
