"""The audit trail: append-only, read by owner, run and kind."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from adapters.postgres.pool import Pool, reconnecting

_APPEND = """
INSERT INTO audit (owner_id, actor_id, kind, run_id, session_id, tool, origin, executor, profile,
                   dedupe_key, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (dedupe_key) DO NOTHING
"""
_QUERY = """
SELECT a.id, a.at, a.owner_id, a.actor_id, a.kind, r.run_id, s.thread_id, a.tool, a.origin,
       a.executor, a.profile, a.detail
FROM audit a
LEFT JOIN runs r ON r.id = a.run_id
LEFT JOIN sessions s ON s.id = a.session_id
WHERE ($1::uuid IS NULL OR a.owner_id = $1)
  AND ($2::text IS NULL OR r.run_id = $2)
  AND ($3::text IS NULL OR a.kind = $3)
  AND ($4::text IS NULL OR a.tool = $4)
  AND ($5::text IS NULL OR a.origin = $5)
  AND ($6::text IS NULL OR a.executor = $6)
  AND ($7::text IS NULL OR a.profile = $7)
  AND ($8::bigint IS NULL OR a.id < $8)
ORDER BY a.id DESC LIMIT $9
"""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Something that must be accounted for. `dedupe_key`: a step that runs twice leaves one."""

    owner_id: UUID
    kind: str
    actor_id: UUID | None = None
    run_key: UUID | None = None
    session_key: UUID | None = None
    tool: str | None = None
    origin: str | None = None
    executor: str | None = None
    profile: str | None = None
    dedupe_key: str | None = None
    detail: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An entry as it is read; ids are those the client chose."""

    id: int
    at: datetime
    owner_id: UUID
    actor_id: UUID | None
    kind: str
    run_id: str | None
    thread_id: str | None
    tool: str | None
    origin: str | None
    executor: str | None
    profile: str | None
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """`owner_id` None = every owner (operators only)."""

    owner_id: UUID | None
    run_id: str | None = None
    kind: str | None = None
    tool: str | None = None
    origin: str | None = None
    executor: str | None = None
    profile: str | None = None
    before_id: int | None = None


class AuditStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def append(self, entry: AuditEntry) -> None:
        await self._pool.execute(
            _APPEND,
            entry.owner_id,
            entry.actor_id,
            entry.kind,
            entry.run_key,
            entry.session_key,
            entry.tool,
            entry.origin,
            entry.executor,
            entry.profile,
            entry.dedupe_key,
            json.dumps(entry.detail),
        )

    @reconnecting
    async def query(self, where: AuditFilter, limit: int) -> list[AuditRow]:
        """Newest first."""
        rows = await self._pool.fetch(
            _QUERY,
            where.owner_id,
            where.run_id,
            where.kind,
            where.tool,
            where.origin,
            where.executor,
            where.profile,
            where.before_id,
            limit,
        )
        return [AuditRow(**{**dict(row), "detail": json.loads(row["detail"])}) for row in rows]
