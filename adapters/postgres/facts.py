"""Writing facts. A write of a key supersedes; nothing is lost until it is purged.

Whether a write says anything new is decided in `domain.facts.judged`, inside the key's lock.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import asyncpg

from adapters.postgres import fact_writing as writing
from adapters.postgres.fact_reading import FactReader
from adapters.postgres.fact_rows import CURRENT, ONE_KEY, fact_of
from adapters.postgres.fact_writing import WRITTEN_BY, Origin
from adapters.postgres.pool import Connection, constraint, reconnecting
from domain.errors import NotFound
from domain.facts import (
    GLOBAL,
    Evidence,
    Fact,
    FactWrite,
    Outcome,
    Rejection,
    Written,
    checked,
    checked_evidence,
    checked_key,
    checked_scope,
    key_digest,
)
from domain.text import clean

_WHICH = f"SELECT scope, key FROM facts WHERE owner_id = $1 AND id = $2 AND {CURRENT}"  # noqa: S608
_FORGET = f"""
UPDATE facts SET forgotten_at = clock_timestamp(), forgotten_through = $5
WHERE owner_id = $1 AND scope = $2 AND {ONE_KEY} AND {CURRENT}
RETURNING id
"""  # noqa: S608
_FORGOTTEN_BY = "SELECT (detail->>'fact_id')::uuid FROM audit WHERE dedupe_key = $1"


class FactStore(FactReader):
    """Every method is bound to one owner; another owner's fact is as good as absent."""

    @reconnecting
    async def write(
        self,
        owner_id: UUID,
        write: FactWrite,
        *,
        write_key: str | None = None,
        source_run: UUID | None = None,
        actor: UUID | None = None,
    ) -> Written:
        """Remember; the current fact of this key, if any, becomes history.

        The same `write_key` again returns what it wrote and changes nothing. Raises InvalidInput
        naming the field that is wrong; evidence is wrong if it is not a message of this owner.
        """
        write, origin = checked(write), Origin(_scoped(owner_id, write_key), source_run, actor)
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                await writing.lock(connection, owner_id, write.scope, write.key)
                if done := await writing.done_by(connection, origin.write_key):
                    return done
                return await writing.write_fact(connection, owner_id, write, origin)
        except asyncpg.UniqueViolationError as error:
            if constraint(error) != "facts_write_key_unique":
                raise
            row = await self._pool.fetchrow(WRITTEN_BY, origin.write_key)
            return Written(Outcome.WRITTEN, fact_of(row))

    @reconnecting
    async def reject(
        self,
        owner_id: UUID,
        write: FactWrite,
        reason: Rejection,
        *,
        write_key: str,
        source_run: UUID | None = None,
        threshold: float | None = None,
    ) -> Written:
        """Keep what was proposed and is not believed as a candidate, and account for it.

        Of what was purged and not said again since, no more than the account is kept.
        """
        write, origin = checked(write), Origin(_scoped(owner_id, write_key), source_run)
        async with self._pool.acquire() as connection, connection.transaction():
            await writing.lock(connection, owner_id, write.scope, write.key)
            kept = await writing.to_be_kept(connection, owner_id, write)
            await writing.refuse(connection, owner_id, write, origin, reason, threshold, kept=kept)
        return Written(Outcome.REJECTED, None, reason)

    @reconnecting
    async def forget(
        self,
        owner_id: UUID,
        *,
        key: str | None = None,
        fact_id: UUID | None = None,
        scope: str = GLOBAL,
        reason: str = "",
        evidence: Sequence[Evidence] = (),
        write_key: str | None = None,
        source_run: UUID | None = None,
        actor: UUID | None = None,
    ) -> Written:
        """Put a tombstone on the current fact with this id, or else this key, and account for it.

        A wish that was spoken (`evidence`) holds for what was said before it: a fact that was
        stated later stays (outdated). The same wish again, or the same `write_key`, changes
        nothing. Raises NotFound if nothing current answers to it, InvalidInput for a malformed
        key or scope or evidence that is not a message of this owner.
        """
        named = "" if key is None else checked_key(key)
        scope, evidence = checked_scope(scope), checked_evidence(evidence)
        origin = Origin(_scoped(owner_id, write_key), source_run, actor)
        async with self._pool.acquire() as connection, connection.transaction():
            if done := await _forgotten(connection, owner_id, origin.write_key):
                return done
            if fact_id is not None:
                row = await connection.fetchrow(_WHICH, owner_id, fact_id)
                scope, named = (row["scope"], row["key"]) if row else (scope, "")
            await writing.lock(connection, owner_id, scope, named)
            through = await writing.when_stated(connection, owner_id, evidence)
            versions = await writing.versions_of(connection, owner_id, scope, named)
            if kept := _not_meant(versions, through, evidence):
                return kept
            current = next((fact for fact in versions if fact.current), None)
            if current is None or fact_id not in (None, current.id):
                raise NotFound(f"nothing is remembered under {fact_id or named}")
            digest = key_digest(owner_id, scope, named)
            await connection.execute(_FORGET, owner_id, scope, named, digest, through)
            detail = {"fact_id": str(current.id), "reason": clean(reason)}
            await writing.account(connection, owner_id, "fact_forgotten", origin, detail)
            return Written(
                Outcome.WRITTEN, fact_of(await writing.row_of(connection, owner_id, current.id))
            )


def _not_meant(
    versions: Sequence[Fact], through: datetime, evidence: Sequence[Evidence]
) -> Written | None:
    """What a spoken wish to forget is not about: what was said later, what it has forgotten."""
    if not evidence:
        return None
    for fact in versions:
        if fact.forgotten_through is not None and through <= fact.forgotten_through:
            return Written(Outcome.KNOWN, fact)
    current = next((fact for fact in versions if fact.current), None)
    if current is not None and through < current.stated_at:
        return Written(Outcome.OUTDATED, current, Rejection.OUTDATED)
    return None


async def _forgotten(
    connection: Connection, owner_id: UUID, write_key: str | None
) -> Written | None:
    if write_key is None:
        return None
    fact_id = await connection.fetchval(_FORGOTTEN_BY, write_key)
    if fact_id is None:
        return None
    return Written(Outcome.WRITTEN, fact_of(await writing.row_of(connection, owner_id, fact_id)))


def _scoped(owner_id: UUID, write_key: str | None) -> str | None:
    """Callers' keys are theirs alone: two owners may use the same one."""
    return f"fact:{owner_id}:{write_key}" if write_key else None
