"""memory_forget: put a tombstone on a fact, by key or id."""

import json
from uuid import UUID

from pydantic import Field, model_validator

from adapters.postgres.facts import FactStore
from adapters.tools.registry import Arguments, Tool, ToolContext, ToolError, declare
from domain.facts import GLOBAL, MAX_EVIDENCE, MAX_KEY, Outcome
from domain.tools import ToolKind

_DESCRIPTION = (
    "Forget a remembered fact when the user asks for it or it is no longer true. "
    "Name it by key or by memory_id (memory_search shows both)."
)


class MemoryForget(Arguments):
    key: str | None = Field(default=None, min_length=1, max_length=MAX_KEY)
    memory_id: UUID | None = Field(default=None, description="Instead of the key")
    scope: str = Field(default=GLOBAL, max_length=100, description="Of the key")
    evidence: list[str] = Field(
        default=[],
        max_length=MAX_EVIDENCE,
        description="Ids of messages that ask for it; leave out for the current one",
    )
    reason: str = Field(min_length=1, max_length=500, description="Why it is to be forgotten")

    @model_validator(mode="after")
    def one_name(self) -> "MemoryForget":
        if (self.key is None) == (self.memory_id is None):
            raise ValueError("give either key or memory_id")
        return self


def memory_forget(facts: FactStore) -> Tool[MemoryForget]:
    async def run(arguments: MemoryForget, context: ToolContext) -> str:
        context.check_scope(arguments.scope)
        evidence = context.resolve(arguments.evidence)
        if evidence and context.takeovers.issuperset(evidence):
            raise ToolError("evidence: the message is an order to the assistant, not a wish")
        done = await facts.forget(
            context.owner_id,
            key=arguments.key,
            fact_id=arguments.memory_id,
            scope=arguments.scope,
            reason=arguments.reason,
            evidence=evidence,
            write_key=context.idempotency_key,
            source_run=context.run_key,
        )
        kept = done.outcome is Outcome.OUTDATED
        told = {"status": "kept" if kept else "forgotten"}
        if done.fact is not None:
            told |= {"memory_id": str(done.fact.id), "key": done.fact.key}
        if kept:
            told["reason"] = "it was stated after this was asked for"
        return json.dumps(told, ensure_ascii=False)

    return declare(
        "memory_forget",
        _DESCRIPTION,
        MemoryForget,
        run,
        kind=ToolKind.WRITE,
        quick=True,
        timeout_s=10,
    )
