"""Purging a fact: the owner's right to have it gone for good. A digest of its key is left."""

import json
from dataclasses import dataclass, replace
from uuid import UUID

from adapters import event_codec
from adapters.postgres.fact_writing import lock
from adapters.postgres.pool import Connection, Pool, reconnecting
from domain.errors import NotFound
from domain.facts import key_digest
from domain.purging import MARK, Gone, redacted

_WHICH = "SELECT scope, key FROM facts WHERE owner_id = $1 AND id = $2"
_SPELLINGS = """
SELECT key, value, id::text AS id FROM facts WHERE owner_id = $1 AND scope = $2
UNION ALL SELECT key, value, NULL FROM fact_candidates WHERE owner_id = $1 AND scope = $2
"""
_EVIDENCE = """
INSERT INTO purged_evidence (session_id, message_id, owner_id)
SELECT DISTINCT e.session_id, e.message_id, e.owner_id FROM fact_evidence e
JOIN facts f ON f.id = e.fact_id
WHERE f.owner_id = $1 AND f.scope = $2 AND f.key = ANY ($3::text[]) ON CONFLICT DO NOTHING
"""
# What memory tools and memory runs left behind, of this owner's sessions only.
_DERIVED = r"""
SELECT m.session_id, m.seq, m.run_id, m.role, m.content, m.tool_calls
FROM sessions s JOIN messages m ON m.session_id = s.id
WHERE s.owner_id = $1 AND (
    m.role = 'tool' AND m.metadata ->> 'tool' LIKE 'memory\_%'
    OR m.role = 'assistant' AND (m.tool_calls::text LIKE '%"memory\_%'
        OR m.hidden_from_user AND m.metadata ->> 'executor' = 'memory'))
"""
_REWRITE = """
UPDATE messages SET content = $3, tool_calls = $4::jsonb WHERE session_id = $1 AND seq = $2
"""
_ASKED = r"""
SELECT id, run_id, body, arguments, input FROM checkpoints
WHERE owner_id = $1 AND tool LIKE 'memory\_%'
"""
_REWRITE_ASKED = """
UPDATE checkpoints SET body = $2, arguments = $3::jsonb, input = $4::jsonb WHERE id = $1
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
    """How much is gone. `runs`: whose events may still be on a live stream with it."""

    versions: int
    candidates: int
    runs: tuple[UUID, ...] = ()


class FactPurge:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def purge(self, owner_id: UUID, fact_id: UUID, *, actor: UUID | None = None) -> Purged:
        """Delete every version of this fact's key, with evidence, vectors and candidates, however
        the key was spelled.

        Messages stay: they are the conversation. What memory tools and memory runs wrote of it is
        redacted. What was said up to now does not bring the fact back, under any key: from the
        messages it rested on nothing new is learnt. Raises NotFound.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            row = await connection.fetchrow(_WHICH, owner_id, fact_id)
            if row is None:
                raise NotFound(f"there is no fact {fact_id}")
            scope, key = row["scope"], row["key"]
            await lock(connection, owner_id, scope, key)
            digest = key_digest(owner_id, scope, key)
            known = await connection.fetch(_SPELLINGS, owner_id, scope)
            meant = [each for each in known if key_digest(owner_id, scope, each["key"]) == digest]
            keys = list({each["key"] for each in meant})
            where = owner_id, scope, keys
            await connection.execute(_EVIDENCE, *where)
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
            gone = Gone(
                lambda said, key: key_digest(owner_id, said or scope, key) == digest,
                frozenset(each["id"] for each in meant if each["id"]),
                frozenset(each["value"] for each in meant),
            )
            return Purged(versions, candidates, await _redact(connection, owner_id, gone))


async def _redact(connection: Connection, owner_id: UUID, gone: Gone) -> tuple[UUID, ...]:
    """Take it out of what machines wrote about it. Returns the runs that did."""
    runs: set[UUID] = set()
    for row in await connection.fetch(_DERIVED, owner_id):
        calls = tuple(
            replace(call, arguments=redacted(call.arguments, gone))
            if call.name.startswith("memory_")
            else call
            for call in event_codec.load_calls(row["tool_calls"])
        )
        content = redacted(row["content"], gone)
        if (content, calls) != (row["content"], event_codec.load_calls(row["tool_calls"])):
            dumped = event_codec.dump_calls(calls)
            await connection.execute(_REWRITE, row["session_id"], row["seq"], content, dumped)
            runs.add(row["run_id"])
    for row in await connection.fetch(_ASKED, owner_id):
        arguments = redacted(row["arguments"], gone)
        given = None if row["input"] is None else redacted(row["input"], gone)
        if (arguments, given) != (row["arguments"], row["input"]):
            await connection.execute(_REWRITE_ASKED, row["id"], MARK, arguments, given)
            runs.add(row["run_id"])
    return tuple(runs)
