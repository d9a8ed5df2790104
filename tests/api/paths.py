"""The API as its own OpenAPI document has it, for tests that must miss no route."""

from dataclasses import dataclass
from typing import Any

from adapters import settings
from api.app import PREFIX, ROOT, create_app

VERBS = ("get", "post", "put", "patch", "delete", "head", "options")
OPEN = ("/health/live", "/health/ready")
"""Paths that need no key."""


@dataclass(frozen=True)
class Operation:
    verb: str
    path: str  # as a template, without the prefix; for those beside the agent's, below the root
    details: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.verb.upper()} {self.path}"


def document() -> dict[str, Any]:
    config = settings.load({}, database_url="postgresql://nowhere", redis_url="redis://nowhere")
    return create_app(config).openapi()


def operations() -> list[Operation]:
    """Every operation there is."""
    return [
        Operation(verb, path.removeprefix(PREFIX).removeprefix(ROOT), details)
        for path, verbs in document()["paths"].items()
        for verb, details in verbs.items()
    ]


def paths() -> list[str]:
    return sorted({operation.path for operation in operations()})
