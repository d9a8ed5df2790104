"""Facts: written once, superseded, forgotten, found; never across owners."""

import asyncio
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from adapters import words
from adapters.postgres.fact_reading import LIST
from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool
from adapters.recall import Asked, Recall
from domain.errors import InvalidInput, NotFound
from domain.facts import Evidence, Fact, FactWrite
from tests.adapters.tool_calls import add_owner
from tests.remembered import remember, said

pytestmark = pytest.mark.anyio

NOBODY = UUID(int=0)
TEA = FactWrite(key="favourite_drink", value="Green tea in the morning.", tags=("Drinks",))


async def find(store: FactStore, owner: UUID, query: str, limit: int = 20) -> list[Fact]:
    recalled = await Recall(store).search(Asked(owner, query, limit))
    return [each.fact for each in recalled.found]


async def test_a_fact_comes_back_as_it_was_written(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    one, two = await said(pool, owner, "one"), await said(pool, owner, "two")
    fact = await remember(store, owner, replace(TEA, confidence=0.7, evidence=(two, two, one)))
    assert (fact.key, fact.value, fact.tags) == (TEA.key, TEA.value, ("drinks",))
    assert (fact.confidence, fact.evidence, fact.scope) == (0.7, (two, one), "global")
    assert fact.current
    assert await store.list(owner) == (fact,)


async def test_writing_a_key_again_supersedes_and_keeps_the_history(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    old = await remember(store, owner, TEA)
    new = await remember(store, owner, replace(TEA, value="Coffee now."))
    assert await store.list(owner) == (new,)
    history = await store.get(owner, old.id)
    assert not history.fact.current
    assert history.fact.superseded_by == new.id
    assert [version.value for version in history.versions] == ["Coffee now.", TEA.value]


async def test_the_same_key_in_another_scope_is_another_fact(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    await remember(store, owner, TEA)
    await remember(store, owner, replace(TEA, scope="agent:barista"))
    assert len(await store.list(owner)) == 2
    assert len(await store.list(owner, scopes=["agent:barista"])) == 1


async def test_the_same_call_twice_writes_one_row(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    first = await remember(store, owner, TEA, write_key="call-1")
    again = await remember(store, owner, TEA, write_key="call-1")
    assert again == first
    assert len((await store.get(owner, first.id)).versions) == 1


async def test_two_owners_may_use_the_same_write_key(pool: Pool) -> None:
    store = FactStore(pool)
    one, other = await add_owner(pool), await add_owner(pool)
    mine = await remember(store, one, TEA, write_key="call-1")
    theirs = await remember(store, other, TEA, write_key="call-1")
    assert (mine.owner_id, theirs.owner_id) == (one, other)


async def test_one_call_under_two_keys_at_once_writes_one_fact(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    writes = [replace(TEA, key=f"key-{i}") for i in range(4)]
    facts = await asyncio.gather(*(remember(store, owner, w, write_key="one-call") for w in writes))
    assert len({fact.id for fact in facts}) == 1
    assert len(await store.list(owner)) == 1


async def test_twenty_writers_of_one_key_leave_one_current_fact_and_a_whole_chain(
    pool: Pool,
) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    written = await asyncio.gather(
        *(remember(store, owner, replace(TEA, value=f"value {i}")) for i in range(20))
    )
    (current,) = await store.list(owner)
    versions = (await store.get(owner, current.id)).versions
    assert {v.id for v in versions} == {fact.id for fact in written}
    newer = [None, *(version.id for version in versions[:-1])]
    assert [version.superseded_by for version in versions] == newer


async def test_forgetting_by_key_or_id_takes_a_fact_out_of_every_answer(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    await remember(store, owner, TEA)
    name = await remember(store, owner, FactWrite("name", "Ada"))
    await store.forget(owner, key=TEA.key, reason="asked")
    gone = (await store.forget(owner, fact_id=name.id, reason="asked")).fact
    assert gone is not None
    assert gone.forgotten_at is not None
    assert await store.list(owner) == ()
    assert await find(store, owner, "tea name") == []
    assert (await store.get(owner, name.id)).fact == gone


async def test_why_a_fact_was_forgotten_is_on_record(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    fact = await remember(store, owner, TEA)
    await store.forget(owner, key=TEA.key, reason="not true")
    detail = await pool.fetchval(
        "SELECT detail::text FROM audit WHERE owner_id = $1 AND kind = 'fact_forgotten'", owner
    )
    assert str(fact.id) in detail
    assert "not true" in detail
    assert TEA.value not in detail


async def test_what_was_forgotten_can_be_learnt_anew(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    old = await remember(store, owner, TEA)
    await store.forget(owner, key=TEA.key)
    new = await remember(store, owner, TEA)
    assert new.id != old.id
    assert await store.list(owner) == (new,)


async def test_forgetting_twice_by_one_call_is_done_once_and_says_the_same(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    await remember(store, owner, TEA)
    first = await store.forget(owner, key=TEA.key, write_key="call-1")
    assert await store.forget(owner, key=TEA.key, write_key="call-1") == first


async def test_forgetting_what_is_not_there_says_so(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    with pytest.raises(NotFound, match="shoe size"):
        await store.forget(owner, key="shoe size")


async def test_nobody_reaches_another_owners_facts(pool: Pool) -> None:
    store = FactStore(pool)
    owner, stranger = await add_owner(pool), await add_owner(pool)
    fact = await remember(store, owner, TEA)
    assert await store.list(stranger) == ()
    assert await find(store, stranger, "tea") == []
    with pytest.raises(NotFound):
        await store.get(stranger, fact.id)
    with pytest.raises(NotFound):
        await store.forget(stranger, fact_id=fact.id)
    with pytest.raises(NotFound):
        await store.forget(stranger, key=TEA.key)
    assert await store.list(owner) == (fact,)


async def test_a_word_weighs_three_in_tags_two_in_the_key_one_in_the_value(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    for write in (
        FactWrite("a", "rides a bicycle"),
        FactWrite("bicycle_colour", "red"),
        FactWrite("c", "goes on two wheels", ("bicycle",)),
        FactWrite("bicycle_brand", "a bicycle of steel", ("bicycle",)),
        FactWrite("pet", "a cat"),
    ):
        await remember(store, owner, write)
    hits = await store.index.by_words(owner, words.asked("Which BICYCLES?"))
    keys = {fact.id: fact.key for fact in await store.list(owner)}
    assert [keys[hit.fact_id] for hit in hits] == ["bicycle_brand", "c", "bicycle_colour", "a"]
    once = hits[-1].score
    assert [round(hit.score / once, 6) for hit in hits] == [6, 3, 2, 1]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("我喜欢什么颜色", ["颜色", "drink"]),
        ("绿茶", ["drink"]),
        ("关于我的工作你知道什么", ["job"]),
        ("天气", []),
        ("100%", ["discount"]),
        ("under_score", ["discount"]),
        ("art", []),
    ],
)
async def test_words_are_found_in_chinese_and_english(
    pool: Pool, query: str, found: list[str]
) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    for write in (
        FactWrite("discount", "100% off, under score"),
        FactWrite("job", "在一家银行工作"),
        FactWrite("drink", "喜欢喝绿茶"),
        FactWrite("颜色", "最喜欢的是蓝色", ("喜欢",)),
        FactWrite("start", "begins at nine"),
    ):
        await remember(store, owner, write)
    assert [fact.key for fact in await find(store, owner, query)] == found


async def test_a_query_without_a_word_of_its_own_lists_the_newest(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    facts = [await remember(store, owner, FactWrite(f"key{i}", "value")) for i in range(3)]
    for query in ("", "what do you know about me?", "你知道关于我什么？", "%' OR 1=1 --"[:2]):
        assert await find(store, owner, query, limit=2) == [facts[2], facts[1]]


async def test_a_list_is_read_in_pages(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    facts = [await remember(store, owner, FactWrite(f"key{i}", "value")) for i in range(5)]
    pages: list[Fact] = []
    while page := await store.list(
        owner, limit=2, before=(pages[-1].created_at, pages[-1].id) if pages else None
    ):
        pages += page
    assert pages == facts[::-1]


@pytest.mark.parametrize(
    ("write", "field"),
    [
        (replace(TEA, key="  \n"), "key"),
        (replace(TEA, key="k" * 201), "key"),
        (replace(TEA, value=""), "value"),
        (replace(TEA, value="v" * 8_001), "value"),
        (replace(TEA, tags=tuple(f"t{i}" for i in range(21))), "tags"),
        (replace(TEA, tags=("t" * 61,)), "tags"),
        (replace(TEA, scope="agent:../x"), "scope"),
        (replace(TEA, scope="other"), "scope"),
        (replace(TEA, confidence=1.1), "confidence"),
        (replace(TEA, confidence=float("nan")), "confidence"),
        (replace(TEA, evidence=tuple(Evidence(NOBODY, f"m{i}") for i in range(51))), "evidence"),
    ],
)
async def test_what_is_no_fact_is_refused_by_field(
    pool: Pool, write: FactWrite, field: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        await FactStore(pool).write(uuid4(), write)
    assert raised.value.field == field


async def test_nul_and_lone_surrogates_are_stored_as_what_can_be(pool: Pool) -> None:
    store, owner = FactStore(pool), await add_owner(pool)
    odd = FactWrite("k\x00ey", "va\ud800lue", ("t\x00",))
    fact = await remember(store, owner, odd)
    assert (fact.key, fact.value, fact.tags) == ("k�ey", "va�lue", ("t�",))
    assert await find(store, owner, "\x00\ud800 va\ud800lue") == [fact]
    await store.forget(owner, key="k\x00ey", reason="\x00 \ud800")
    with pytest.raises(InvalidInput):
        await store.forget(owner, key="key", scope="\x00")


async def test_reading_facts_uses_the_owners_index(pool: Pool) -> None:
    owner = await add_owner(pool)
    await pool.execute(
        """INSERT INTO facts (owner_id, key, value)
           SELECT id, 'key' || n, 'value' FROM users, generate_series(1, 200) n"""
    )
    for _ in range(20):
        await add_owner(pool)
    await pool.execute(
        """INSERT INTO facts (owner_id, key, value)
           SELECT id, 'more' || n, 'value' FROM users, generate_series(1, 500) n"""
    )
    await pool.execute("ANALYZE facts")
    for query, arguments in ((LIST, (owner, None, None, None, 50, 0.0)),):
        plan = await pool.fetch("EXPLAIN " + query, *arguments)
        text = "\n".join(row[0] for row in plan)
        assert "Seq Scan on facts" not in text, text
