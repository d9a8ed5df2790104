"""Facts of an owner. A write of a key supersedes; nothing is lost until it is purged."""

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID, uuid4

import asyncpg

from adapters.postgres.pool import Connection, Pool, Row, constraint, reconnecting
from domain.errors import NotFound
from domain.facts import (
    GLOBAL,
    Fact,
    FactHistory,
    FactWrite,
    FoundFact,
    checked,
    checked_key,
    checked_scope,
    search_patterns,
)
from domain.text import clean

_COLUMNS = """id, owner_id, scope, key, value, tags, confidence, evidence, source_run_id,
       created_at, superseded_by, superseded_at, forgotten_at"""
_CURRENT = "superseded_at IS NULL AND forgotten_at IS NULL"

# Writers of one key take turns; the second sees what the first committed.
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))"
_WRITTEN = f"SELECT {_COLUMNS} FROM facts WHERE write_key = $1"  # noqa: S608 (constants)
_SUPERSEDE = f"""
UPDATE facts SET superseded_at = clock_timestamp()
WHERE owner_id = $1 AND scope = $2 AND key = $3 AND {_CURRENT}
RETURNING id
"""  # noqa: S608
_INSERT = f"""
INSERT INTO facts (id, owner_id, scope, key, value, tags, confidence, evidence, source_run_id,
                   write_key, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp())
RETURNING {_COLUMNS}
"""  # noqa: S608
_LINK = "UPDATE facts SET superseded_by = $2 WHERE id = $1"
_FORGET = f"""
UPDATE facts SET forgotten_at = clock_timestamp()
WHERE owner_id = $1 AND {_CURRENT}
  AND (id = $2 OR ($2::uuid IS NULL AND scope = $3 AND key = $4))
RETURNING {_COLUMNS}
"""  # noqa: S608
_FORGOTTEN_BY = "SELECT (detail->>'fact_id')::uuid FROM audit WHERE dedupe_key = $1"
_ACCOUNT = """
INSERT INTO audit (owner_id, kind, run_id, tool, dedupe_key, detail)
VALUES ($1, 'fact_forgotten', $2, 'memory_forget', $3, $4)
"""
_GET = f"SELECT {_COLUMNS} FROM facts WHERE owner_id = $1 AND id = $2"  # noqa: S608
_VERSIONS = f"""
SELECT {_COLUMNS} FROM facts WHERE owner_id = $1 AND scope = $2 AND key = $3
ORDER BY created_at DESC, id
"""  # noqa: S608
LIST = f"""
SELECT {_COLUMNS} FROM facts
WHERE owner_id = $1 AND {_CURRENT} AND ($2::text IS NULL OR scope = $2)
  AND ($3::timestamptz IS NULL OR (created_at, id) < ($3, $4))
ORDER BY created_at DESC, id DESC LIMIT $5
"""  # noqa: S608
# Key and tags are read as words whatever joins them: favourite_colour, favourite-colour.
SEARCH = f"""
SELECT {_COLUMNS}, score FROM facts,
LATERAL (
    SELECT sum(3 * (translate(lower(array_to_string(tags, ' ')), '_-./:', '     ') ~ w)::int
             + 2 * (translate(lower(key), '_-./:', '     ') ~ w)::int
             + (lower(value) ~ w)::int) AS score
    FROM unnest($2::text[]) AS w
) AS scored
WHERE owner_id = $1 AND {_CURRENT} AND ($3::text[] IS NULL OR scope = ANY ($3)) AND score > 0
ORDER BY score DESC, created_at DESC, id LIMIT $4
"""  # noqa: S608
_KNOWN_MESSAGES = """
SELECT id FROM messages WHERE owner_id = $1 AND session_id = $2 AND id = ANY ($3::text[])
"""


class FactStore:
    """Every method is bound to one owner; another owner's fact is as good as absent."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def write(
        self,
        owner_id: UUID,
        write: FactWrite,
        *,
        write_key: str | None = None,
        source_run: UUID | None = None,
    ) -> Fact:
        """Remember; the current fact of this key, if any, becomes history.

        The same `write_key` again returns what it wrote and changes nothing.
        Raises InvalidInput naming the field that is wrong.
        """
        write, write_key = checked(write), _scoped(owner_id, write_key)
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                await _lock(connection, owner_id, write.scope, write.key)
                if write_key and (row := await connection.fetchrow(_WRITTEN, write_key)):
                    return _fact(row)
                old = await connection.fetchrow(_SUPERSEDE, owner_id, write.scope, write.key)
                new = await _insert(connection, owner_id, write, write_key, source_run)
                if old is not None:
                    await connection.execute(_LINK, old["id"], new.id)
                return new
        except asyncpg.UniqueViolationError as error:
            if constraint(error) != "facts_write_key_unique":
                raise
            return _fact(await self._pool.fetchrow(_WRITTEN, write_key))

    @reconnecting
    async def forget(
        self,
        owner_id: UUID,
        *,
        key: str | None = None,
        fact_id: UUID | None = None,
        scope: str = GLOBAL,
        reason: str = "",
        write_key: str | None = None,
        source_run: UUID | None = None,
    ) -> Fact:
        """Put a tombstone on the current fact with this id, or else this key, and account for it.

        The same `write_key` again returns what it forgot. Raises NotFound if nothing current
        answers to it, InvalidInput for a malformed key or scope.
        """
        key = "" if key is None else checked_key(key)
        scope = checked_scope(scope)
        write_key = _scoped(owner_id, write_key)
        async with self._pool.acquire() as connection, connection.transaction():
            if write_key and (done := await connection.fetchval(_FORGOTTEN_BY, write_key)):
                return _fact(await connection.fetchrow(_GET, owner_id, done))
            row = await connection.fetchrow(_FORGET, owner_id, fact_id, scope, key)
            if row is None:
                raise NotFound("nothing is remembered under " + (str(fact_id) if fact_id else key))
            detail = json.dumps({"fact_id": str(row["id"]), "reason": clean(reason)})
            await connection.execute(_ACCOUNT, owner_id, source_run, write_key, detail)
            return _fact(row)

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
        return tuple(FoundFact(_fact(row), row["score"]) for row in rows)

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
        return tuple(_fact(row) for row in rows)

    @reconnecting
    async def get(self, owner_id: UUID, fact_id: UUID) -> FactHistory:
        """A fact of any state, with every version of its key. Raises NotFound."""
        row = await self._pool.fetchrow(_GET, owner_id, fact_id)
        if row is None:
            raise NotFound(f"there is no fact {fact_id}")
        fact = _fact(row)
        rows = await self._pool.fetch(_VERSIONS, owner_id, fact.scope, fact.key)
        return FactHistory(fact, tuple(_fact(row) for row in rows))

    @reconnecting
    async def known_messages(
        self, owner_id: UUID, session: UUID, ids: Sequence[str]
    ) -> frozenset[str]:
        """Which of these ids are messages of this session."""
        rows = await self._pool.fetch(_KNOWN_MESSAGES, owner_id, session, [clean(id) for id in ids])
        return frozenset(row["id"] for row in rows)


def _scoped(owner_id: UUID, write_key: str | None) -> str | None:
    """Callers' keys are theirs alone: two owners may use the same one."""
    return f"fact:{owner_id}:{write_key}" if write_key else None


async def _lock(connection: Connection, owner_id: UUID, scope: str, key: str) -> None:
    await connection.execute(_LOCK, f"fact:{owner_id}:{scope}:{key}")


async def _insert(
    connection: Connection,
    owner_id: UUID,
    write: FactWrite,
    write_key: str | None,
    source_run: UUID | None,
) -> Fact:
    row = await connection.fetchrow(
        _INSERT,
        uuid4(),
        owner_id,
        write.scope,
        write.key,
        write.value,
        list(write.tags),
        write.confidence,
        list(write.evidence),
        source_run,
        write_key,
    )
    return _fact(row)


def _fact(row: Row) -> Fact:
    return Fact(
        id=row["id"],
        owner_id=row["owner_id"],
        scope=row["scope"],
        key=row["key"],
        value=row["value"],
        tags=tuple(row["tags"]),
        confidence=round(row["confidence"], 4),  # stored as a 4-byte float
        evidence=tuple(row["evidence"]),
        source_run=row["source_run_id"],
        created_at=row["created_at"],
        superseded_by=row["superseded_by"],
        superseded_at=row["superseded_at"],
        forgotten_at=row["forgotten_at"],
    )
