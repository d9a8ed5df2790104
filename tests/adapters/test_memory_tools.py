"""The memory tools, called as a model calls them."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool
from adapters.tools.catalog import built_in
from domain.tools import ToolResult, ToolStatus
from tests.adapters.tool_calls import Caller, caller

pytestmark = pytest.mark.anyio

TEA = {"key": "drink", "value": "Likes green tea.", "tags": ["drinks"]}


@pytest.fixture
def facts(pool: Pool) -> FactStore:
    return FactStore(pool)


@pytest.fixture
async def ada(pool: Pool, facts: FactStore, tmp_path: Path) -> Caller:
    return await caller(pool, built_in(facts), tmp_path)


def content(result: ToolResult) -> Any:
    assert result.status is ToolStatus.OK, result.content
    return json.loads(result.content)


async def test_what_is_written_is_found_with_its_evidence(ada: Caller) -> None:
    written = content(await ada.call("memory_write", TEA))
    (item,) = content(await ada.call("memory_search", {"query": "tea"}))["items"]
    assert (item["memory_id"], item["value"]) == (written["memory_id"], TEA["value"])
    assert item["evidence"] == [ada.message_id]


async def test_a_fact_knows_the_run_it_comes_from(ada: Caller, facts: FactStore) -> None:
    await ada.call("memory_write", TEA)
    (fact,) = await facts.list(ada.owner)
    assert fact.source_run == ada.run_key


async def test_a_repeated_call_writes_once(ada: Caller, facts: FactStore) -> None:
    first = content(await ada.call("memory_write", TEA, id="call-1"))
    assert content(await ada.call("memory_write", TEA, id="call-1")) == first
    (fact,) = await facts.list(ada.owner)
    assert len((await facts.get(ada.owner, fact.id)).versions) == 1


async def test_evidence_must_be_messages_of_this_session(
    ada: Caller, pool: Pool, facts: FactStore, tmp_path: Path
) -> None:
    bob = await caller(pool, built_in(facts), tmp_path)
    taken = await ada.call("memory_write", {**TEA, "evidence": [ada.message_id]})
    strange = await ada.call("memory_write", {**TEA, "evidence": [bob.message_id]})
    assert taken.status is ToolStatus.OK
    assert strange.status is ToolStatus.ERROR
    assert "evidence" in strange.content


async def test_owner_and_session_can_not_be_given_as_arguments(ada: Caller) -> None:
    for name in ("owner_id", "session_key", "run_key", "user_id"):
        result = await ada.call("memory_write", {**TEA, name: str(uuid4())})
        assert result.status is ToolStatus.ERROR
        assert name in result.content


async def test_a_rule_of_facts_is_told_by_field(ada: Caller) -> None:
    result = await ada.call("memory_write", {**TEA, "tags": ["x" * 99]})
    assert result.status is ToolStatus.ERROR
    assert "tags: " in result.content


async def test_forgetting_by_key_then_again(ada: Caller) -> None:
    await ada.call("memory_write", TEA)
    forget = {"key": "drink", "reason": "the user asked"}
    assert content(await ada.call("memory_forget", forget))["status"] == "forgotten"
    assert content(await ada.call("memory_forget", forget))["status"] == "forgotten"
    other = await ada.call("memory_forget", {**forget, "key": "food"})
    assert other.status is ToolStatus.ERROR
    assert "nothing is remembered under food" in other.content
    assert content(await ada.call("memory_search", {"query": ""}))["items"] == []


async def test_forgetting_needs_one_name(ada: Caller) -> None:
    both = {"key": "drink", "memory_id": str(uuid4()), "reason": "asked"}
    for arguments in (both, {"reason": "asked"}):
        result = await ada.call("memory_forget", arguments)
        assert result.status is ToolStatus.ERROR
        assert "either key or memory_id" in result.content


async def test_another_owner_finds_and_forgets_nothing(
    ada: Caller, pool: Pool, facts: FactStore, tmp_path: Path
) -> None:
    bob = await caller(pool, built_in(facts), tmp_path)
    written = content(await ada.call("memory_write", TEA))
    assert content(await bob.call("memory_search", {"query": "tea"}))["items"] == []
    by_id = {"memory_id": written["memory_id"], "reason": "mischief"}
    assert (await bob.call("memory_forget", by_id)).status is ToolStatus.ERROR
    assert len(await facts.list(ada.owner)) == 1


@pytest.mark.parametrize("limit", [0, 21])
async def test_a_search_returns_one_to_twenty(ada: Caller, limit: int) -> None:
    result = await ada.call("memory_search", {"query": "tea", "limit": limit})
    assert result.status is ToolStatus.ERROR
    assert "limit" in result.content


async def test_nul_in_arguments_is_no_error_of_the_database(ada: Caller) -> None:
    await ada.call("memory_write", {"key": "k\x00", "value": "v\x00"})
    assert content(await ada.call("memory_search", {"query": "k\x00"}))["items"]


async def test_a_question_where_nobody_can_be_asked_is_left_to_the_model(ada: Caller) -> None:
    told = content(await ada.call("ask_clarification", {"question": "Which city?"}))
    assert told["status"] == "not_asked"
    assert "what you assumed" in told["instruction"]


async def test_only_tools_that_stay_in_the_database_are_quick(ada: Caller) -> None:
    quick = {name for name, spec in ada.registry.specs.items() if spec.quick}
    assert quick == {"memory_search", "memory_write", "memory_forget"}
