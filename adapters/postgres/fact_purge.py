"""Purging a fact: the owner's right to have it gone for good. A digest of its key is left."""

import json
from dataclasses import dataclass
from uuid import UUID

from adapters.postgres.fact_writing import lock
from adapters.postgres.pool import Pool, reconnecting
from domain.errors import NotFound
from domain.facts import key_digest

_WHICH = "SELECT scope, key FROM facts WHERE owner_id = $1 AND id = $2"
_SPELLINGS = """
SELECT key FROM facts WHERE owner_id = $1 AND scope = $2
UNION SELECT key FROM fact_candidates WHERE owner_id = $1 AND scope = $2
"""
# Evidence goes with its fact (ON DELETE CASCADE); versions point at each other.
_UNLINK = """
UPDATE facts SET superseded_by = NULL WHERE owner_id = $1 AND scope = $2 AND key = ANY ($3::text[])
"""
_VERSIONS = """
WITH gone AS (
    DELETE FROM facts WHERE owner_id = $1 AND scope = $2 AND key = ANY ($3::text[]) RETURNING id
)
SELECT count(*) FROM gone
"""
_CANDIDATES = """
WITH gone AS (
    DELETE FROM fact_candidates WHERE owner_id = $1 AND scope = $2 AND key = ANY ($3::text[])
    RETURNING id
)
SELECT count(*) FROM gone
"""
# The name of a key can say as much as its value, and so can why it was to be forgotten.
_REDACT = """
UPDATE audit SET detail = detail - 'key' - CASE kind WHEN 'fact_forgotten' THEN 'reason' ELSE '' END
WHERE owner_id = $1 AND (
    kind = 'fact_rejected' AND detail ->> 'key' = ANY ($2::text[])
    OR kind = 'fact_forgotten' AND detail ->> 'fact_id' IN (
        SELECT id::text FROM facts WHERE owner_id = $1 AND scope = $3 AND key = ANY ($2::text[])))
"""
_REMEMBER = """
INSERT INTO fact_purges (owner_id, scope, key_digest, purged_at)
VALUES ($1, $2, $3, clock_timestamp())
ON CONFLICT (owner_id, scope, key_digest) DO UPDATE SET purged_at = EXCLUDED.purged_at
"""
_ACCOUNT = """
INSERT INTO audit (owner_id, actor_id, kind, detail) VALUES ($1, $2, 'fact_purged', $3)
"""


@dataclass(frozen=True, slots=True)
class Purged:
    """How much is gone."""

    versions: int
    candidates: int


class FactPurge:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def purge(self, owner_id: UUID, fact_id: UUID, *, actor: UUID | None = None) -> Purged:
        """Delete every version of this fact's key, with evidence, vectors and candidates, however
        the key was spelled.

        Messages stay: they are the conversation. What was said up to now does not bring the fact
        back. Raises NotFound.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            row = await connection.fetchrow(_WHICH, owner_id, fact_id)
            if row is None:
                raise NotFound(f"there is no fact {fact_id}")
            scope, key = row["scope"], row["key"]
            await lock(connection, owner_id, scope, key)
            digest = key_digest(owner_id, scope, key)
            known = await connection.fetch(_SPELLINGS, owner_id, scope)
            keys = [k for each in known if key_digest(owner_id, scope, k := each["key"]) == digest]
            where = owner_id, scope, keys
            await connection.execute(_REDACT, owner_id, keys, scope)
            await connection.execute(_UNLINK, *where)
            versions = await connection.fetchval(_VERSIONS, *where)
            candidates = await connection.fetchval(_CANDIDATES, *where)
            await connection.execute(_REMEMBER, owner_id, scope, digest)
            detail = {
                "key_digest": digest.hex()[:16],
                "versions": versions,
                "candidates": candidates,
            }
            await connection.execute(_ACCOUNT, owner_id, actor, json.dumps(detail))
            return Purged(versions, candidates)
