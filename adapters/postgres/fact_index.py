"""What facts are found by: words and vectors, worked out once per fact, and how both are searched.

A vector is compared with every one of the owner's, exactly: an owner has thousands of facts, not
millions (docs/decisions/0011). Vectors of two models are never compared.
"""

from collections.abc import Sequence
from uuid import UUID

from adapters import words
from adapters.postgres.fact_rows import COLUMNS, CURRENT, fact_of
from adapters.postgres.pool import Pool, Row, reconnecting
from domain.facts import Fact
from domain.ports import Vector
from domain.recall import CANDIDATES, Near, WordHit

_MINE = (
    f"owner_id = $1 AND {CURRENT} AND confidence >= $2 AND ($3::text[] IS NULL OR scope = ANY ($3))"
)
_ANY = f"SELECT EXISTS (SELECT 1 FROM facts WHERE owner_id = $1 AND {CURRENT})"  # noqa: S608
# Rarity as in BM25: ln(1 + (N - n + 0.5) / (n + 0.5)) for a word in n of N facts.
BY_WORDS = f"""
WITH mine AS MATERIALIZED (
    SELECT id, created_at, tag_words, key_words, value_words FROM facts WHERE {_MINE}
), hits AS (
    SELECT mine.id, mine.created_at, word,
           3 * (word = ANY (tag_words))::int + 2 * (word = ANY (key_words))::int
           + (word = ANY (value_words))::int AS weight
    FROM mine, unnest($4::text[]) AS word
    WHERE word = ANY (tag_words) OR word = ANY (key_words) OR word = ANY (value_words)
), known AS (
    SELECT word, count(*) AS facts, (SELECT count(*) FROM mine) AS all_facts FROM hits GROUP BY word
)
SELECT hits.id,
       sum(weight * ln(1 + (all_facts - facts + 0.5) / (facts + 0.5)))::float8 AS score,
       bool_or(facts <= GREATEST(1, all_facts / 50)) AS telling
FROM hits JOIN known USING (word)
GROUP BY hits.id, hits.created_at ORDER BY score DESC, hits.created_at DESC, hits.id LIMIT $5
"""  # noqa: S608
_CHINESE = "(key || value) ~ '[\\u3040-\\u30ff\\u3400-\\u9fff]'"
BY_MEANING = f"""
SELECT id, 1 - (embedding <=> $4::vector)
           - CASE WHEN {_CHINESE} THEN $6::float8 ELSE $7::float8 END AS above
FROM facts WHERE {_MINE} AND embedding_model = $5
ORDER BY above DESC, id LIMIT $8
"""  # noqa: S608
_THESE = f"SELECT {COLUMNS} FROM facts WHERE owner_id = $1 AND id = ANY ($2) AND {CURRENT}"  # noqa: S608
# Only what is current can be found. `$1` NULL: every owner's.
UNWORDED = f"""
SELECT id, key, value, tags FROM facts
WHERE value_words IS NULL AND {CURRENT} AND ($1::uuid IS NULL OR owner_id = $1)
ORDER BY id LIMIT $2
"""  # noqa: S608
UNEMBEDDED = f"""
SELECT id, key, value, tags FROM facts
WHERE embedding_model IS DISTINCT FROM $3 AND {CURRENT} AND ($1::uuid IS NULL OR owner_id = $1)
ORDER BY id LIMIT $2
"""  # noqa: S608
_SET_WORDS = """
UPDATE facts SET tag_words = $2, key_words = $3, value_words = $4 WHERE id = $1
"""
_SET_VECTOR = "UPDATE facts SET embedding = $2::vector, embedding_model = $3 WHERE id = $1"


class FactIndex:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def any(self, owner_id: UUID) -> bool:
        """Whether this owner has a fact at all."""
        return await self._pool.fetchval(_ANY, owner_id)

    @reconnecting
    async def by_words(
        self,
        owner_id: UUID,
        asked: Sequence[str],
        *,
        scopes: Sequence[str] | None = None,
        min_confidence: float = 0.0,
    ) -> tuple[WordHit, ...]:
        """Facts with any of these words, best first."""
        rows = await self._pool.fetch(
            BY_WORDS, owner_id, *_bounds(min_confidence, scopes), list(asked), CANDIDATES
        )
        return tuple(WordHit(row["id"], row["score"], row["telling"]) for row in rows)

    @reconnecting
    async def by_meaning(
        self,
        owner_id: UUID,
        vector: Vector,
        model: str,
        *,
        levels: tuple[float, float],
        scopes: Sequence[str] | None = None,
        min_confidence: float = 0.0,
    ) -> tuple[Near, ...]:
        """Facts by how far they are above the level of their language (Chinese, others)."""
        rows = await self._pool.fetch(
            BY_MEANING,
            owner_id,
            *_bounds(min_confidence, scopes),
            _text(vector),
            model,
            *levels,
            CANDIDATES,
        )
        return tuple(Near(row["id"], row["above"]) for row in rows)

    @reconnecting
    async def these(self, owner_id: UUID, ids: Sequence[UUID]) -> tuple[Fact, ...]:
        """Those of these facts that are current, in no order."""
        rows = await self._pool.fetch(_THESE, owner_id, list(ids))
        return tuple(fact_of(row) for row in rows)

    @reconnecting
    async def add_words(self, owner_id: UUID | None, limit: int) -> int:
        """Work out the words of facts that have none. Returns how many got them."""
        rows = await self._pool.fetch(UNWORDED, owner_id, limit)
        await self._pool.executemany(_SET_WORDS, [(row["id"], *words_of(row)) for row in rows])
        return len(rows)

    @reconnecting
    async def unembedded(
        self, owner_id: UUID | None, model: str, limit: int
    ) -> tuple[tuple[UUID, str], ...]:
        """Facts without a vector of this model, each with the text to embed."""
        rows = await self._pool.fetch(UNEMBEDDED, owner_id, limit, model)
        return tuple((row["id"], text_of(row)) for row in rows)

    @reconnecting
    async def set_vectors(self, model: str, vectors: Sequence[tuple[UUID, Vector]]) -> None:
        await self._pool.executemany(
            _SET_VECTOR, [(fact_id, _text(vector), model) for fact_id, vector in vectors]
        )


def words_of(row: Row) -> tuple[list[str], list[str], list[str]]:
    """Words of tags, key and value."""
    return words.stored(" ".join(row["tags"])), words.stored(row["key"]), words.stored(row["value"])


def text_of(row: Row) -> str:
    """What a fact means, as one text: `favourite drink: Likes green tea.`"""
    return f"{row['key'].replace('_', ' ')}: {row['value']}"


def _bounds(min_confidence: float, scopes: Sequence[str] | None) -> tuple[float, list[str] | None]:
    # Stored as a 4-byte float: 0.6 must not miss what was stored as 0.6.
    return min_confidence - 1e-6, None if scopes is None else list(scopes)


def _text(vector: Vector) -> str:
    return "[" + ",".join(f"{number:.7g}" for number in vector) + "]"
