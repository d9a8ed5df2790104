"""Reading facts: lists, one with its history, and what words find. Nothing here changes a row."""

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from adapters.postgres.pool import Pool, Row, reconnecting
from domain.errors import NotFound
from domain.facts import (
    Candidate,
    Evidence,
    Fact,
    FactHistory,
    FoundFact,
    Rejection,
    search_patterns,
)
from domain.text import clean

COLUMNS = """facts.id, facts.owner_id, facts.scope, facts.key, facts.value, facts.tags,
       facts.confidence, facts.source_run_id, facts.stated_at, facts.created_at,
       facts.superseded_by, facts.superseded_at, facts.forgotten_at, facts.forgotten_through,
       COALESCE((SELECT json_agg(json_build_array(e.session_id, e.message_id) ORDER BY e.place)
                 FROM fact_evidence e WHERE e.fact_id = facts.id), '[]') AS evidence"""
CURRENT = "facts.superseded_at IS NULL AND facts.forgotten_at IS NULL"

GET = f"SELECT {COLUMNS} FROM facts WHERE owner_id = $1 AND id = $2"  # noqa: S608 (constants)
VERSIONS = f"""
SELECT {COLUMNS} FROM facts WHERE owner_id = $1 AND scope = $2 AND key = $3
ORDER BY created_at DESC, id
"""  # noqa: S608
LIST = f"""
SELECT {COLUMNS} FROM facts
WHERE owner_id = $1 AND {CURRENT} AND ($2::text IS NULL OR scope = $2)
  AND ($3::timestamptz IS NULL OR (created_at, id) < ($3, $4))
ORDER BY created_at DESC, id DESC LIMIT $5
"""  # noqa: S608
# Key and tags are read as words whatever joins them: favourite_colour, favourite-colour.
SEARCH = f"""
SELECT {COLUMNS}, score FROM facts,
LATERAL (
    SELECT sum(3 * (translate(lower(array_to_string(tags, ' ')), '_-./:', '     ') ~ w)::int
             + 2 * (translate(lower(key), '_-./:', '     ') ~ w)::int
             + (lower(value) ~ w)::int) AS score
    FROM unnest($2::text[]) AS w
) AS scored
WHERE owner_id = $1 AND {CURRENT} AND ($3::text[] IS NULL OR scope = ANY ($3)) AND score > 0
ORDER BY score DESC, created_at DESC, id LIMIT $4
"""  # noqa: S608
_KNOWN_MESSAGES = """
SELECT id FROM messages WHERE owner_id = $1 AND session_id = $2 AND id = ANY ($3::text[])
"""
_CANDIDATES = """
SELECT id, scope, key, value, confidence, reason, source_run_id, created_at FROM fact_candidates
WHERE owner_id = $1 AND ($2::timestamptz IS NULL OR (created_at, id) < ($2, $3))
ORDER BY created_at DESC, id DESC LIMIT $4
"""


class FactReader:
    """Every method is bound to one owner; another owner's fact is as good as absent."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def search(
        self,
        owner_id: UUID,
        query: str,
        *,
        limit: int = 20,
        scopes: Sequence[str] | None = None,
    ) -> tuple[FoundFact, ...]:
        """Current facts by words, best first; newest first (score 0) for a query without any."""
        patterns = search_patterns(query)
        wanted = None if scopes is None else list(scopes)
        if not patterns:
            facts = await self.list(owner_id, limit=limit)
            return tuple(FoundFact(f, 0) for f in facts if wanted is None or f.scope in wanted)
        rows = await self._pool.fetch(SEARCH, owner_id, list(patterns), wanted, limit)
        return tuple(FoundFact(fact_of(row), row["score"]) for row in rows)

    @reconnecting
    async def list(
        self,
        owner_id: UUID,
        *,
        scope: str | None = None,
        before: tuple[datetime, UUID] | None = None,
        limit: int = 50,
    ) -> tuple[Fact, ...]:
        """Current facts, newest first. `before`: (created_at, id) of the last one seen."""
        at, id = before or (None, None)
        rows = await self._pool.fetch(LIST, owner_id, scope, at, id, limit)
        return tuple(fact_of(row) for row in rows)

    @reconnecting
    async def get(self, owner_id: UUID, fact_id: UUID) -> FactHistory:
        """A fact of any state, with every version of its key. Raises NotFound."""
        row = await self._pool.fetchrow(GET, owner_id, fact_id)
        if row is None:
            raise NotFound(f"there is no fact {fact_id}")
        fact = fact_of(row)
        rows = await self._pool.fetch(VERSIONS, owner_id, fact.scope, fact.key)
        return FactHistory(fact, tuple(fact_of(row) for row in rows))

    @reconnecting
    async def candidates(
        self, owner_id: UUID, *, before: tuple[datetime, UUID] | None = None, limit: int = 50
    ) -> tuple[Candidate, ...]:
        """What was proposed and not believed, newest first."""
        at, id = before or (None, None)
        rows = await self._pool.fetch(_CANDIDATES, owner_id, at, id, limit)
        return tuple(_candidate(row) for row in rows)

    @reconnecting
    async def known_messages(
        self, owner_id: UUID, session: UUID, ids: Sequence[str]
    ) -> frozenset[str]:
        """Which of these ids are messages of this session."""
        rows = await self._pool.fetch(_KNOWN_MESSAGES, owner_id, session, [clean(id) for id in ids])
        return frozenset(row["id"] for row in rows)


def fact_of(row: Row) -> Fact:
    """The fact in a row of COLUMNS."""
    return Fact(
        id=row["id"],
        owner_id=row["owner_id"],
        scope=row["scope"],
        key=row["key"],
        value=row["value"],
        tags=tuple(row["tags"]),
        confidence=round(row["confidence"], 4),  # stored as a 4-byte float
        evidence=tuple(Evidence(UUID(s), id) for s, id in json.loads(row["evidence"])),
        source_run=row["source_run_id"],
        stated_at=row["stated_at"],
        created_at=row["created_at"],
        superseded_by=row["superseded_by"],
        superseded_at=row["superseded_at"],
        forgotten_at=row["forgotten_at"],
        forgotten_through=row["forgotten_through"],
    )


def _candidate(row: Row) -> Candidate:
    return Candidate(
        id=row["id"],
        scope=row["scope"],
        key=row["key"],
        value=row["value"],
        confidence=round(row["confidence"], 4),
        reason=Rejection(row["reason"]),
        source_run=row["source_run_id"],
        created_at=row["created_at"],
    )
