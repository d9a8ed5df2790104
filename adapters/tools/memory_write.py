"""memory_write: remember a stable fact about the owner; a known key is superseded."""

import json

from pydantic import Field

from adapters.postgres.facts import FactStore
from adapters.tools.registry import Arguments, Tool, ToolContext, ToolError, declare
from domain.facts import GLOBAL, MAX_EVIDENCE, MAX_KEY, MAX_TAGS, MAX_VALUE, FactWrite
from domain.tools import ToolKind

_DESCRIPTION = (
    "Remember a stable fact about the user (a preference, goal, name, decision) for later "
    "conversations. Writing a key again replaces its value; the old one stays in the history."
)


class MemoryWrite(Arguments):
    key: str = Field(
        min_length=1, max_length=MAX_KEY, description="Short name, e.g. favourite_colour"
    )
    value: str = Field(
        min_length=1, max_length=MAX_VALUE, description="The fact, one sentence that stands alone"
    )
    tags: list[str] = Field(
        default=[], max_length=MAX_TAGS, description="Topics to find it by, in the user's language"
    )
    scope: str = Field(default=GLOBAL, description="global, or agent:<id> for an agent's own")
    confidence: float = Field(default=1.0, ge=0, le=1, description="How sure this is, 0 to 1")
    evidence: list[str] = Field(
        default=[],
        max_length=MAX_EVIDENCE,
        description="Ids of messages of this session that say so; leave out for the current one",
    )


def memory_write(facts: FactStore) -> Tool[MemoryWrite]:
    async def run(arguments: MemoryWrite, context: ToolContext) -> str:
        fact = await facts.write(
            context.owner_id,
            FactWrite(
                key=arguments.key,
                value=arguments.value,
                tags=tuple(arguments.tags),
                scope=arguments.scope,
                confidence=arguments.confidence,
                evidence=await _evidence(facts, arguments.evidence, context),
            ),
            write_key=context.idempotency_key,
            source_run=context.run_key,
        )
        stored = {"memory_id": str(fact.id), "key": fact.key, "value": fact.value}
        return json.dumps({"status": "remembered", **stored}, ensure_ascii=False)

    return declare(
        "memory_write",
        _DESCRIPTION,
        MemoryWrite,
        run,
        kind=ToolKind.WRITE,
        quick=True,
        timeout_s=10,
    )


async def _evidence(facts: FactStore, given: list[str], context: ToolContext) -> tuple[str, ...]:
    if not given:
        return context.source_message_ids
    known = await facts.known_messages(context.owner_id, context.session_key, given)
    if strangers := [id for id in given if id not in known]:
        raise ToolError(f"evidence: {strangers[0][:100]!r} is not a message of this session")
    return tuple(given)
