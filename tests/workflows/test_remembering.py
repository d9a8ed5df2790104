"""What a chat run is told from memory, and what it is told when memory can't be read."""

import json
from typing import Any

from structlog.testing import capture_logs

from adapters.postgres.facts import FactStore
from domain.events import Notice, RunStatus
from domain.facts import FactWrite
from domain.runs import Run
from tests.fixtures_worker import System, elsewhere
from tests.remembered import remember

NOBODY = {
    "embeddings": "endpoint",
    "embeddings_base_url": "http://127.0.0.1:9/v1",
    "embeddings_model": "nobody",
}
TWO_TURNS = "Any green tea? [[standin: two_calls call=list_files args={} call=list_files args={}]]"


async def facts_seen(system: System, run: Run) -> list[list[str]]:
    """Per turn, the facts in the model's context."""
    rows = await system.pool.fetch(
        "SELECT seen FROM model_calls WHERE run_id = $1 ORDER BY turn", run.key
    )
    return [json.loads(row["seen"])["facts"] for row in rows]


async def notices(system: System, run: Run) -> list[dict[str, Any]]:
    events = await system.events(run)
    return [e.value for e in events if isinstance(e, Notice) and e.name == "varve.memory"]


async def test_facts_that_bear_on_the_message_are_in_every_turn_and_on_record(
    system: System,
) -> None:
    store = FactStore(system.pool)
    tea = await remember(store, system.owner, FactWrite("drink", "Likes green tea."))
    await remember(store, system.owner, FactWrite("car", "Drives a red Volvo."))
    run = await system.run(TWO_TURNS)
    assert run.status is RunStatus.COMPLETED
    assert await facts_seen(system, run) == [[str(tea.id)], [str(tea.id)]]
    assert await notices(system, run) == []


async def test_a_paraphrase_brings_its_fact_into_the_prompt(system: System) -> None:
    store = FactStore(system.pool)
    pet = await remember(store, system.owner, FactWrite("pet", "Has a dachshund called Rufus."))
    run = await system.run("Is there anything my dog should not eat?")
    assert await facts_seen(system, run) == [[str(pet.id)]]


async def test_a_fact_less_sure_than_the_profile_asks_stays_out(system: System) -> None:
    await remember(
        FactStore(system.pool), system.owner, FactWrite("drink", "Green tea.", confidence=0.59)
    )
    run = await system.run("green tea")
    assert await facts_seen(system, run) == [[]]


async def test_with_the_embeddings_down_words_are_searched_and_it_is_told_once(
    system: System,
) -> None:
    tea = await remember(FactStore(system.pool), system.owner, FactWrite("drink", "Green tea."))
    async with elsewhere(system, **NOBODY) as there:
        with capture_logs() as logs:
            run = await there.run(TWO_TURNS)
        assert run.status is RunStatus.COMPLETED
        assert await facts_seen(there, run) == [[str(tea.id)], [str(tea.id)]]
        assert await notices(there, run) == [{"status": "degraded"}]
    assert "memory_degraded" in {log["event"] for log in logs if log["log_level"] == "error"}


async def test_a_broken_index_is_an_event_and_an_error_and_the_run_goes_on(
    system: System,
) -> None:
    await remember(FactStore(system.pool), system.owner, FactWrite("drink", "Green tea."))
    await system.pool.execute("ALTER TABLE facts RENAME COLUMN value_words TO broken")
    with capture_logs() as logs:
        run = await system.run(TWO_TURNS)
    assert run.status is RunStatus.COMPLETED
    assert await notices(system, run) == [{"status": "failed"}]
    assert "memory_unreadable" in {log["event"] for log in logs if log["log_level"] == "error"}


async def test_a_search_that_the_model_asks_for_and_that_breaks_is_an_error_not_nothing(
    system: System,
) -> None:
    await remember(FactStore(system.pool), system.owner, FactWrite("drink", "Green tea."))
    await system.pool.execute("ALTER TABLE facts RENAME COLUMN value_words TO broken")
    run = await system.run('[[standin: call=memory_search args={"query":"tea"}]]')
    assert run.status is RunStatus.COMPLETED
    told = [m.metadata["status"] for m in await system.messages(run) if m.role == "tool"]
    assert told == ["error"]
