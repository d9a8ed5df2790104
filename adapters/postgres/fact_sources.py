"""Why something is known: the messages a fact rests on, and the run that wrote it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from adapters.postgres.pool import Pool, reconnecting
from domain.messages import Role

_SOURCES = """
SELECT e.fact_id, e.message_id, s.thread_id, r.run_id, m.role, m.content AS text,
       m.created_at AS said_at
FROM fact_evidence e
JOIN messages m ON m.session_id = e.session_id AND m.id = e.message_id
JOIN sessions s ON s.id = e.session_id
JOIN runs r ON r.id = m.run_id
WHERE e.owner_id = $1 AND m.owner_id = $1 AND e.fact_id = ANY ($2)
ORDER BY e.fact_id, e.place
"""
_RUN = """
SELECT r.run_id, s.thread_id, r.origin FROM runs r JOIN sessions s ON s.id = r.session_id
WHERE r.id = $1 AND r.owner_id = $2
"""


@dataclass(frozen=True, slots=True)
class Source:
    """A message that says so. Ids are those the client chose."""

    fact_id: UUID
    message_id: str
    thread_id: str
    run_id: str
    role: Role
    text: str
    said_at: datetime


@dataclass(frozen=True, slots=True)
class SourceRun:
    """The run that wrote a fact."""

    run_id: str
    thread_id: str
    origin: str


class FactSources:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def of(self, owner_id: UUID, fact_ids: Sequence[UUID]) -> tuple[Source, ...]:
        """The messages that these facts rest on."""
        rows = await self._pool.fetch(_SOURCES, owner_id, list(fact_ids))
        return tuple(
            Source(
                fact_id=row["fact_id"],
                message_id=row["message_id"],
                thread_id=row["thread_id"],
                run_id=row["run_id"],
                role=Role(row["role"]),
                text=row["text"],
                said_at=row["said_at"],
            )
            for row in rows
        )

    @reconnecting
    async def run(self, owner_id: UUID, run_key: UUID | None) -> SourceRun | None:
        """The run with this key; None for a person's own hand."""
        row = await self._pool.fetchrow(_RUN, run_key, owner_id)
        return None if row is None else SourceRun(**dict(row))
