"""memory_search: find what is remembered about the owner, by words and by meaning."""

import json
from typing import Any

import asyncpg
import structlog
from pydantic import Field

from adapters.postgres.pool import LOST
from adapters.recall import Asked, Recall
from adapters.tools.registry import Arguments, Tool, ToolContext, ToolError, declare
from domain.recall import FoundFact
from domain.tools import ToolKind

_log = structlog.get_logger(__name__)

_DESCRIPTION = (
    "Search what is remembered about the user, best match first. Use the words a fact would "
    "contain, in the user's language; an empty query lists the newest facts."
)


class MemorySearch(Arguments):
    query: str = Field(max_length=1_000, description="Words to look for; may be empty")
    limit: int = Field(default=5, ge=1, le=20)


def memory_search(recall: Recall) -> Tool[MemorySearch]:
    async def run(arguments: MemorySearch, context: ToolContext) -> str:
        asked = Asked(context.owner_id, arguments.query, arguments.limit)
        try:
            recalled = await recall.search(asked)
        except LOST:
            raise  # comes back
        except asyncpg.PostgresError as error:
            _log.error("memory_unreadable", run_key=str(context.run_key), error=repr(error))
            raise ToolError(
                "memory could not be searched, which does not mean that nothing is remembered"
            ) from error
        result: dict[str, Any] = {"items": [_item(each) for each in recalled.found]}
        if recalled.degraded:
            result |= {
                "degraded": True,
                "note": "searched by words only; other words may find more",
            }
        return json.dumps(result, ensure_ascii=False)

    return declare(
        "memory_search",
        _DESCRIPTION,
        MemorySearch,
        run,
        kind=ToolKind.READ,
        quick=True,
        timeout_s=10,
        read_on="search with a smaller limit or more particular words",
    )


def _item(found: FoundFact) -> dict[str, Any]:
    fact = found.fact
    return {
        "memory_id": str(fact.id),
        "key": fact.key,
        "value": fact.value,
        "tags": fact.tags,
        "scope": fact.scope,
        "confidence": fact.confidence,
        "since": fact.stated_at.isoformat(timespec="seconds"),
        "evidence": [each.message_id for each in fact.evidence],
    }
