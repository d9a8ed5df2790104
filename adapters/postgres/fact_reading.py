"""Reading facts: lists, one with its history, and what words find. Nothing here changes a row."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from adapters.postgres.fact_index import FactIndex
from adapters.postgres.fact_rows import COLUMNS, CURRENT, ONE_KEY, fact_of
from adapters.postgres.pool import Pool, Row, reconnecting
from domain.errors import NotFound
from domain.facts import (
    Candidate,
    Fact,
    FactHistory,
    Rejection,
    key_digest,
)
from domain.text import clean

GET = f"SELECT {COLUMNS} FROM facts WHERE owner_id = $1 AND id = $2"  # noqa: S608 (constants)
VERSIONS = f"""
SELECT {COLUMNS} FROM facts WHERE owner_id = $1 AND scope = $2 AND {ONE_KEY}
ORDER BY created_at DESC, id
"""  # noqa: S608
LIST = f"""
SELECT {COLUMNS} FROM facts
WHERE owner_id = $1 AND {CURRENT} AND ($2::text[] IS NULL OR scope = ANY ($2))
  AND ($3::timestamptz IS NULL OR (created_at, id) < ($3, $4)) AND confidence >= $6
ORDER BY created_at DESC, id DESC LIMIT $5
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

    @property
    def index(self) -> FactIndex:
        """What they are found by."""
        return FactIndex(self._pool)

    @reconnecting
    async def list(
        self,
        owner_id: UUID,
        *,
        scopes: Sequence[str] | None = None,
        min_confidence: float = 0.0,
        before: tuple[datetime, UUID] | None = None,
        limit: int = 50,
    ) -> tuple[Fact, ...]:
        """Current facts, newest first. `before`: (created_at, id) of the last one seen."""
        (at, id), wanted = before or (None, None), None if scopes is None else list(scopes)
        sure = min_confidence - 1e-6  # stored as a 4-byte float
        rows = await self._pool.fetch(LIST, owner_id, wanted, at, id, limit, sure)
        return tuple(fact_of(row) for row in rows)

    @reconnecting
    async def get(self, owner_id: UUID, fact_id: UUID) -> FactHistory:
        """A fact of any state, with every version of its key. Raises NotFound."""
        row = await self._pool.fetchrow(GET, owner_id, fact_id)
        if row is None:
            raise NotFound(f"there is no fact {fact_id}")
        fact = fact_of(row)
        digest = key_digest(owner_id, fact.scope, fact.key)
        rows = await self._pool.fetch(VERSIONS, owner_id, fact.scope, fact.key, digest)
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
