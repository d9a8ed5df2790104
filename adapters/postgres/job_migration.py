"""Rewrite jobs of an earlier generation: their profiles carry fields that nothing writes any more.

In batches, each a transaction: stopped half way it goes on where it was, and a second time there
is nothing left to do.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import structlog

from adapters.postgres.jobs import profile_document
from adapters.postgres.pool import Connection, Pool, reconnecting
from domain.errors import InvalidInput

# A profile of the earlier generation, by the fields it carries.
_OLD = """
jsonb_typeof(execution_profile) = 'object'
AND (execution_profile ? 'enable_router'
     OR jsonb_path_exists(execution_profile, '$.history_policy.window'))
"""
_COUNT = f"SELECT count(*) FROM automation_jobs WHERE {_OLD}"  # noqa: S608 (a constant)
_BATCH = f"""
SELECT id, execution_profile FROM automation_jobs
WHERE {_OLD} AND ($1::uuid IS NULL OR id > $1)
ORDER BY id LIMIT $2 FOR UPDATE
"""  # noqa: S608
_REWRITE = """
UPDATE automation_jobs AS j SET execution_profile = n.profile::jsonb
FROM unnest($1::uuid[], $2::text[]) AS n(id, profile) WHERE j.id = n.id
"""

Progress = Callable[["Migrated"], None]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Migrated:
    """`unreadable`: jobs whose profile is wrong in another way too; the log names them."""

    changed: int = 0
    unreadable: int = 0


class JobMigration:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def left(self) -> int:
        """How many jobs carry old fields."""
        return await self._pool.fetchval(_COUNT)

    async def run(self, batch: int = 500, progress: Progress | None = None) -> Migrated:
        """Rewrite all of them; `progress` is told the sum after each batch."""
        done, last = Migrated(), None
        while True:
            last, part = await self._batch(last, batch)
            if last is None:
                return done
            done = Migrated(done.changed + part.changed, done.unreadable + part.unreadable)
            if progress is not None:
                progress(done)

    @reconnecting
    async def _batch(self, after: UUID | None, size: int) -> tuple[UUID | None, Migrated]:
        async with self._pool.acquire() as connection, connection.transaction():
            return await _rewrite(connection, after, size)


async def _rewrite(
    connection: Connection, after: UUID | None, size: int
) -> tuple[UUID | None, Migrated]:
    rows = await connection.fetch(_BATCH, after, size)
    new: dict[UUID, str] = {}
    for row in rows:
        try:
            new[row["id"]] = profile_document(json.loads(row["execution_profile"]))
        except InvalidInput as error:
            _log.warning("job_not_migrated", job=str(row["id"]), field=error.field)
    if new:
        await connection.execute(_REWRITE, list(new), list(new.values()))
    last = rows[-1]["id"] if rows else None
    return last, Migrated(len(new), len(rows) - len(new))
