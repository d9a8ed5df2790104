"""A purged fact is nowhere in what the machinery wrote of it."""

import json

from adapters.postgres.fact_purge import FactPurge
from adapters.postgres.facts import FactStore
from domain.messages import Role
from tests.extracting import conversation, extract
from tests.fixtures_worker import System

SECRET = "XYZZY"


async def derived(system: System) -> list[str]:
    """Where the secret is left: everything but what the user said and the assistant answered."""
    rows = await system.pool.fetch(
        "SELECT role, content, tool_calls::text AS calls, hidden_from_user FROM messages"
    )
    texts = [
        f"{row['content']} {row['calls']}"
        for row in rows
        if row["role"] == Role.TOOL or row["calls"] or row["hidden_from_user"]
    ]
    for table in ("run_events", "model_calls", "audit", "checkpoints", "facts", "fact_candidates"):
        found = await system.pool.fetch(f"SELECT t::text AS t FROM {table} t")  # noqa: S608
        texts += [row["t"] for row in found]
    return [text for text in texts if SECRET.casefold() in text.casefold()]


async def test_it_is_taken_out_of_tools_and_memory_runs_and_what_is_left_is_whole(
    system: System,
) -> None:
    part = await conversation(system, f"My illness is {SECRET}. My cat is Tom.")
    await extract(system, part)
    await system.run(f"remember that my illness is {SECRET}", thread_id="t")
    await system.run("what do you know about me?", thread_id="t")
    assert await derived(system)
    facts = {fact.key: fact for fact in await FactStore(system.pool).list(system.owner)}
    purge = FactPurge(system.pool)
    for key, fact in facts.items():
        if "illness" in key:
            gone = await purge.purge(system.owner, fact.id)
            assert gone.runs
    assert await derived(system) == []
    rows = await system.pool.fetch("SELECT tool_calls FROM messages WHERE tool_calls IS NOT NULL")
    for row in rows:
        for call in json.loads(row["tool_calls"]):
            json.loads(call["arguments"])
    assert "Tom" in " ".join(f.value for f in await FactStore(system.pool).list(system.owner))
    after = await system.run("what do you know about me?", thread_id="t")
    assert after.status == "completed"
