"""Facts that are said, heard, corrected, forgotten and purged in any order, and more than once."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from adapters.postgres.fact_purge import FactPurge
from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool
from domain.errors import InvalidInput, NotFound
from domain.facts import Evidence, FactWrite, Outcome, Rejection
from tests.people import add_owner
from tests.remembered import said

pytestmark = pytest.mark.anyio

MONDAY = datetime(2026, 11, 2, 9, tzinfo=UTC)
RED = FactWrite("colour", "Likes red.")
BLUE = FactWrite("colour", "Likes blue.")


@pytest.fixture
async def owner(pool: Pool) -> UUID:
    return await add_owner(pool)


@pytest.fixture
def store(pool: Pool) -> FactStore:
    return FactStore(pool)


async def on(pool: Pool, owner: UUID, day: int, text: str = "so it is") -> Evidence:
    """A message said on that day."""
    return await said(pool, owner, text, at=MONDAY + timedelta(days=day))


async def rows(pool: Pool) -> list[tuple[Any, ...]]:
    """Everything that is known of facts."""
    facts = await pool.fetch("SELECT * FROM facts ORDER BY id")
    evidence = await pool.fetch("SELECT * FROM fact_evidence ORDER BY fact_id, place")
    return [tuple(row) for row in (*facts, *evidence)]


async def values(store: FactStore, owner: UUID) -> list[str]:
    return [fact.value for fact in await store.list(owner)]


async def test_the_same_day_three_times_leaves_identical_rows(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    first, second, third, fourth = [await on(pool, owner, day) for day in range(4)]

    async def process(attempt: int) -> None:
        key = f"attempt-{attempt}"
        red = replace(RED, evidence=(first,))
        assert await store.write(owner, red, write_key=f"{key}-1")
        await store.write(owner, replace(BLUE, evidence=(second,)), write_key=f"{key}-2")
        await store.write(owner, FactWrite("pet", "A cat.", evidence=(first,)))
        await store.forget(owner, key="pet", evidence=(second,), write_key=f"{key}-3")
        await store.write(owner, FactWrite("pet", "A dog.", evidence=(third,)))
        await store.write(owner, replace(BLUE, evidence=(fourth,)), write_key=f"{key}-4")

    await process(1)
    once = await rows(pool)
    await process(2)
    await process(3)
    assert await rows(pool) == once
    assert sorted(await values(store, owner)) == ["A dog.", "Likes blue."]


async def test_twenty_extractions_side_by_side_leave_no_fact_twice(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    messages = [await on(pool, owner, day) for day in range(4)]
    writes = [
        FactWrite(f"key-{i}", f"value {i}", evidence=(message,))
        for i, message in enumerate(messages)
    ]
    done = await asyncio.gather(
        *(
            store.write(owner, write, write_key=f"run-{run}-{write.key}")
            for run in range(20)
            for write in writes
        )
    )
    assert [each.outcome for each in done].count(Outcome.WRITTEN) == 4
    assert sorted(await values(store, owner)) == [f"value {i}" for i in range(4)]
    assert await pool.fetchval("SELECT count(*) FROM facts") == 4
    assert await pool.fetchval("SELECT count(*) FROM fact_evidence") == 4


async def test_what_was_said_earlier_and_heard_later_is_kept_aside(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    old, new = await on(pool, owner, 0), await on(pool, owner, 1)
    await store.write(owner, replace(BLUE, evidence=(new,)))
    done = await store.write(owner, replace(RED, evidence=(old,)), write_key="late")
    again = await store.write(owner, replace(RED, evidence=(old,)), write_key="late")
    assert done.outcome is again.outcome is Outcome.OUTDATED
    assert await values(store, owner) == ["Likes blue."]
    (candidate,) = await store.candidates(owner)
    assert (candidate.value, candidate.reason) == ("Likes red.", Rejection.OUTDATED)


async def test_what_is_said_again_is_supported_and_not_undone_by_what_lay_between(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    first, between, last = [await on(pool, owner, day) for day in range(3)]
    await store.write(owner, replace(RED, evidence=(first,)))
    assert (await store.write(owner, replace(RED, evidence=(last,)))).outcome is Outcome.KNOWN
    late = await store.write(owner, replace(BLUE, evidence=(between,)))
    assert late.outcome is Outcome.OUTDATED
    (fact,) = await store.list(owner)
    assert fact.evidence == (first, last)
    assert fact.stated_at == MONDAY + timedelta(days=2)


async def test_a_person_s_edit_survives_an_extraction_of_older_messages(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    message = await on(pool, owner, 0)
    await store.write(owner, replace(RED, evidence=(message,)))
    await store.write(owner, BLUE, actor=owner)
    assert (await store.write(owner, replace(RED, evidence=(message,)))).outcome is Outcome.KNOWN
    other = await on(pool, owner, 1)
    green = FactWrite("colour", "Likes green.", evidence=(other,))
    assert (await store.write(owner, green)).outcome is Outcome.OUTDATED
    assert await values(store, owner) == ["Likes blue."]


async def test_a_person_may_go_back_to_what_was_superseded(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    for write in (RED, BLUE, RED):
        assert (await store.write(owner, write)).outcome is Outcome.WRITTEN
    assert await values(store, owner) == ["Likes red."]
    assert (await store.write(owner, RED)).outcome is Outcome.KNOWN
    tagged = await store.write(owner, replace(RED, tags=("taste",)))
    assert tagged.outcome is Outcome.WRITTEN


async def test_old_messages_do_not_bring_back_what_was_forgotten(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    first, second = await on(pool, owner, 0), await on(pool, owner, 1)
    await store.write(owner, replace(RED, evidence=(first,)))
    await store.forget(owner, key="colour", actor=owner)
    assert (await store.write(owner, replace(RED, evidence=(first,)))).outcome is Outcome.KNOWN
    assert (await store.write(owner, replace(BLUE, evidence=(second,)))).outcome is Outcome.OUTDATED
    assert await values(store, owner) == []
    later = await said(pool, owner, "green after all")
    green = FactWrite("colour", "Likes green.", evidence=(later,))
    assert (await store.write(owner, green)).outcome is Outcome.WRITTEN


async def test_a_wish_to_forget_is_about_what_was_said_before_it(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    wish, after = await on(pool, owner, 0), await on(pool, owner, 1)
    await store.write(owner, replace(RED, evidence=(after,)))
    done = await store.forget(owner, key="colour", evidence=(wish,))
    assert done.outcome is Outcome.OUTDATED
    assert await values(store, owner) == ["Likes red."]


async def test_what_is_purged_is_gone_and_old_messages_do_not_bring_it_back(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    first, second = await on(pool, owner, 0), await on(pool, owner, 1)
    secret = FactWrite("illness", "Has XYZZY.", tags=("xyzzy",))
    await store.write(owner, replace(secret, evidence=(first,)))
    await store.reject(owner, secret, Rejection.CONFIDENCE, write_key="c", threshold=0.6)
    done = await store.write(owner, replace(secret, value="Had XYZZY.", evidence=(second,)))
    assert done.fact is not None
    await store.forget(owner, key="illness", reason="no XYZZY any more")
    purged = await FactPurge(pool).purge(owner, done.fact.id, actor=owner)
    assert (purged.versions, purged.candidates) == (2, 1)
    for evidence in (first, second):
        again = await store.write(owner, replace(secret, evidence=(evidence,)))
        assert again.outcome is Outcome.OUTDATED
    tables = ("facts", "fact_evidence", "fact_candidates", "fact_purges", "audit")
    for table in tables:
        for row in await pool.fetch(f"SELECT t::text AS text FROM {table} t"):  # noqa: S608
            assert "XYZZY" not in row["text"].upper(), table
            assert "illness" not in row["text"], table
    assert await pool.fetchval("SELECT count(*) FROM facts") == 0
    now = await store.write(owner, replace(secret, evidence=(await said(pool, owner),)))
    assert now.outcome is Outcome.WRITTEN


async def test_from_what_a_purged_fact_rested_on_nothing_new_is_learnt(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    told = await said(pool, owner, "My name is Ada and I live in Paris.")
    name = FactWrite("name", "Ada", evidence=(told,))
    home = FactWrite("home", "Paris", evidence=(told,))
    await store.write(owner, name)
    done = await store.write(owner, home)
    assert done.fact is not None
    await FactPurge(pool).purge(owner, done.fact.id)
    assert (await store.write(owner, name)).outcome is Outcome.KNOWN
    later = await said(pool, owner, "Something else.")
    for again in (
        replace(home, key="city"),
        replace(home, scope="agent:other"),
        replace(home, evidence=(told, later)),
    ):
        refused = await store.write(owner, again)
        assert (refused.outcome, refused.reason) == (Outcome.REJECTED, Rejection.PURGED)
    assert await store.candidates(owner) == ()
    mixed = await store.write(owner, replace(home, key="city", value="x", evidence=(told, later)))
    assert mixed.fact is not None
    assert mixed.fact.evidence == (later,)
    said_again = await said(pool, owner, "I live in Paris.")
    now = await store.write(owner, replace(home, evidence=(said_again,)))
    assert now.outcome is Outcome.WRITTEN


@pytest.mark.parametrize("dated", [True, False])
async def test_what_is_purged_does_not_come_back_as_a_candidate(
    pool: Pool, owner: UUID, store: FactStore, dated: bool
) -> None:
    """An old window may be read again, by a model that is less sure this time."""
    evidence = (await on(pool, owner, 0),)
    secret = FactWrite("illness", "Has XYZZY.", evidence=evidence if dated else ())
    done = await store.write(owner, replace(secret, evidence=evidence))
    assert done.fact is not None
    await FactPurge(pool).purge(owner, done.fact.id)
    refused = await store.reject(owner, secret, Rejection.CONFIDENCE, write_key="again")
    assert refused.outcome is Outcome.REJECTED
    assert await store.candidates(owner) == ()
    for row in await pool.fetch("SELECT a::text AS text FROM audit a"):
        assert "illness" not in row["text"]
    since = replace(secret, evidence=(await said(pool, owner),))
    await store.reject(owner, since, Rejection.CONFIDENCE, write_key="since")
    assert len(await store.candidates(owner)) == 1


async def test_a_purge_takes_every_spelling_of_a_key_and_no_other_key(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    spellings = ("home_city", "Home City", "home-city", "ｈome_city", "HOME.CITY")
    others = ("home_city_2", "c++", "c#", "🐱", "🐶", "मीत", "माता")
    for place, key in enumerate(spellings):
        await store.write(owner, FactWrite(key, f"XYZZY {place}"))
    for key in others:
        await store.write(owner, FactWrite(key, "Something."))
    await store.reject(
        owner, FactWrite("Home_City", "XYZZY"), Rejection.CONFIDENCE, write_key="low"
    )
    known = {fact.key: fact.id for fact in await store.list(owner)}
    assert known.keys() == {spellings[-1], *others}
    purged = await FactPurge(pool).purge(owner, known[spellings[-1]])
    assert (purged.versions, purged.candidates) == (len(spellings), 1)
    for key in ("c++", "🐱", "मीत"):
        assert (await FactPurge(pool).purge(owner, known[key])).versions == 1
    left = {fact.key for fact in await store.list(owner)}
    assert left == set(others) - {"c++", "🐱", "मीत"}


async def test_only_its_owner_purges_a_fact(pool: Pool, owner: UUID, store: FactStore) -> None:
    done = await store.write(owner, RED)
    assert done.fact is not None
    with pytest.raises(NotFound):
        await FactPurge(pool).purge(await add_owner(pool), done.fact.id)
    assert await values(store, owner) == ["Likes red."]


async def test_evidence_is_a_message_of_the_owner(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    theirs = await said(pool, await add_owner(pool))
    mine = await said(pool, owner)
    for stranger in (theirs, replace(mine, message_id="nothing"), Evidence(uuid4(), "nothing")):
        with pytest.raises(InvalidInput) as raised:
            await store.write(owner, replace(RED, evidence=(mine, stranger)))
        assert raised.value.field == "evidence"
    assert await pool.fetchval("SELECT count(*) FROM facts") == 0


async def test_what_is_written_and_what_is_not_is_in_the_audit_without_its_value(
    pool: Pool, owner: UUID, store: FactStore
) -> None:
    await store.write(owner, replace(RED, confidence=0.6), write_key="one")
    for _ in range(2):
        await store.reject(
            owner,
            replace(BLUE, confidence=0.59),
            Rejection.CONFIDENCE,
            write_key="two",
            threshold=0.6,
        )
    found = await pool.fetch(
        "SELECT kind, detail FROM audit WHERE owner_id = $1 ORDER BY id", owner
    )
    written, rejected = [(row["kind"], json.loads(row["detail"])) for row in found]
    assert (written[0], written[1]["confidence"]) == ("fact_written", 0.6)
    assert rejected[0] == "fact_rejected"
    assert (rejected[1]["confidence"], rejected[1]["threshold"]) == (0.59, 0.6)
    assert (rejected[1]["reason"], rejected[1]["key"]) == ("confidence", "colour")
    assert "Likes" not in str(found)
    (candidate,) = await store.candidates(owner)
    assert (candidate.key, candidate.value) == ("colour", "Likes blue.")
    assert await store.candidates(await add_owner(pool)) == ()
