"""memory_write: remember a stable fact about the owner; a known key is superseded."""

import json
from typing import Any

from pydantic import Field

from adapters.postgres.facts import FactStore
from adapters.tools.registry import Arguments, Tool, ToolContext, ToolError, declare
from domain.facts import (
    GLOBAL,
    MAX_EVIDENCE,
    MAX_KEY,
    MAX_TAGS,
    MAX_VALUE,
    Evidence,
    FactWrite,
    Outcome,
    Rejection,
    Written,
)
from domain.orders import is_order
from domain.tools import ToolKind

_DESCRIPTION = (
    "Remember a stable fact about the user (a preference, goal, name, decision) for later "
    "conversations. Writing a key again replaces its value; the old one stays in the history."
)
_STATUS = {
    Outcome.WRITTEN: "remembered",
    Outcome.KNOWN: "known",
    Outcome.OUTDATED: "outdated",
    Outcome.REJECTED: "rejected",
}
_REASONS = {
    Rejection.CONFIDENCE: "it is not sure enough",
    Rejection.EVIDENCE: "its evidence is not a message of the user's in what was to be read",
    Rejection.INSTRUCTION: "it is an order to the assistant and no fact about the user",
    Rejection.OUTDATED: "something newer is known, or the user had it forgotten since",
}


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
        context.check_scope(arguments.scope)
        evidence = await _evidence(facts, arguments.evidence, context)
        write = FactWrite(
            key=arguments.key,
            value=arguments.value,
            tags=tuple(arguments.tags),
            scope=arguments.scope,
            confidence=arguments.confidence,
            evidence=evidence or (),
        )
        if reason := _refused(write, evidence, context):
            done = await facts.reject(
                context.owner_id,
                write,
                reason,
                write_key=context.idempotency_key,
                source_run=context.run_key,
                threshold=context.min_confidence,
            )
        else:
            done = await facts.write(
                context.owner_id,
                write,
                write_key=context.idempotency_key,
                source_run=context.run_key,
            )
        return json.dumps(_told(arguments.key, done), ensure_ascii=False)

    return declare(
        "memory_write",
        _DESCRIPTION,
        MemoryWrite,
        run,
        kind=ToolKind.WRITE,
        quick=True,
        timeout_s=10,
    )


async def _evidence(
    facts: FactStore, named: list[str], context: ToolContext
) -> tuple[Evidence, ...] | None:
    """The messages that a call rests on. None: it names what a window does not hold.

    In a conversation a wrong id is the model's slip, which it may mend; what is extracted from a
    window stands or falls by its evidence.
    """
    if context.admitted is not None:
        try:
            return context.resolve(named)
        except ToolError:
            return None
    if named:
        known = await facts.known_messages(context.owner_id, context.session_key, named)
        if strangers := [id for id in named if id not in known]:
            raise ToolError(f"evidence: {strangers[0][:100]!r} is not a message of this session")
    return context.resolve(named)


def _refused(
    write: FactWrite, evidence: tuple[Evidence, ...] | None, context: ToolContext
) -> Rejection | None:
    if evidence is None:
        return Rejection.EVIDENCE
    if is_order(write.key) or is_order(write.value) or context.orders.intersection(evidence):
        return Rejection.INSTRUCTION
    if write.confidence < context.min_confidence:
        return Rejection.CONFIDENCE
    return None


def _told(key: str, done: Written) -> dict[str, Any]:
    told: dict[str, Any] = {"status": _STATUS[done.outcome], "key": key}
    if done.fact is not None:
        told |= {"memory_id": str(done.fact.id), "value": done.fact.value}
    if done.reason is not None:
        told |= {"reason": done.reason, "explanation": _REASONS[done.reason]}
    return told
