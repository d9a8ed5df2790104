"""What a write of a fact does, step by step, inside the transaction that holds its key's lock."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from adapters import words
from adapters.postgres.fact_reading import GET, VERSIONS
from adapters.postgres.fact_rows import COLUMNS, CURRENT, ONE_KEY, fact_of
from adapters.postgres.pool import Connection, Row
from domain.errors import InvalidInput
from domain.facts import (
    MAX_EVIDENCE,
    Evidence,
    Fact,
    FactWrite,
    Outcome,
    Rejection,
    Written,
    judged,
    key_digest,
)

# Writers of one key take turns; the second sees what the first committed.
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))"
WRITTEN_BY = f"SELECT {COLUMNS} FROM facts WHERE write_key = $1"  # noqa: S608 (constants)
_REFUSED = "SELECT reason FROM fact_candidates WHERE write_key = $1"
_STATED = """
SELECT count(*) AS messages, COALESCE(max(m.created_at), clock_timestamp()) AS at
FROM unnest($2::uuid[], $3::text[]) AS e (session_id, id)
JOIN messages m ON m.session_id = e.session_id AND m.id = e.id AND m.owner_id = $1
"""
_PURGED_AT = """
SELECT purged_at FROM fact_purges WHERE owner_id = $1 AND scope = $2 AND key_digest = $3
"""
_PURGED_EVIDENCE = """
SELECT p.session_id, p.message_id FROM purged_evidence p
JOIN unnest($1::uuid[], $2::text[]) AS e (session_id, message_id)
     ON e.session_id = p.session_id AND e.message_id = p.message_id
"""
_SUPERSEDE = f"""
UPDATE facts SET superseded_at = clock_timestamp()
WHERE owner_id = $1 AND scope = $2 AND {ONE_KEY} AND {CURRENT}
RETURNING id
"""  # noqa: S608
_INSERT = """
INSERT INTO facts (id, owner_id, scope, key, value, tags, confidence, source_run_id, write_key,
                   stated_at, tag_words, key_words, value_words, key_digest, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, clock_timestamp())
"""
_LINK = "UPDATE facts SET superseded_by = $2 WHERE id = $1"
_SUPPORT = """
INSERT INTO fact_evidence (fact_id, session_id, message_id, place, owner_id)
SELECT $1, e.session_id, e.id, $4 + e.place, $5
FROM unnest($2::uuid[], $3::text[]) WITH ORDINALITY AS e (session_id, id, place)
ON CONFLICT DO NOTHING
"""
_RESTATE = "UPDATE facts SET stated_at = GREATEST(stated_at, $2) WHERE id = $1"
_CANDIDATE = """
INSERT INTO fact_candidates (owner_id, source_run_id, write_key, scope, key, value, confidence,
                             reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (write_key) DO NOTHING
"""
_ACCOUNT = """
INSERT INTO audit (owner_id, actor_id, kind, run_id, tool, dedupe_key, detail)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (dedupe_key) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Origin:
    """Who writes. `write_key`: the same again changes nothing."""

    write_key: str | None = None
    run: UUID | None = None  # key of the run
    actor: UUID | None = None  # the person, if one did it by hand


async def write_fact(
    connection: Connection, owner_id: UUID, write: FactWrite, origin: Origin
) -> Written:
    """Judge the write and carry it out: supersede, support, keep as a candidate, or nothing."""
    stated_at = await when_stated(connection, owner_id, write.evidence)
    versions = await versions_of(connection, owner_id, write.scope, write.key)
    digest = key_digest(owner_id, write.scope, write.key)
    purged_at = await connection.fetchval(_PURGED_AT, owner_id, write.scope, digest)
    outcome = judged(write, stated_at, versions, purged_at)
    if outcome is Outcome.WRITTEN and write.evidence:
        left = await _unpurged(connection, write.evidence)
        # Of the purged key itself nothing is taken from such a message, whatever stands beside it.
        if not left or (purged_at is not None and len(left) < len(write.evidence)):
            await refuse(connection, owner_id, write, origin, Rejection.PURGED, None, kept=False)
            return Written(Outcome.REJECTED, None, Rejection.PURGED)
        if len(left) < len(write.evidence):
            write = replace(write, evidence=left)
            stated_at = await when_stated(connection, owner_id, left)
            outcome = judged(write, stated_at, versions, purged_at)
    current = next((fact for fact in versions if fact.current), None)
    if outcome is Outcome.KNOWN:
        if current is not None and current.value == write.value:
            await _restate(connection, current, write.evidence, stated_at)
        return Written(outcome, current)
    if outcome is Outcome.OUTDATED:
        # What was purged must not come back as a candidate either.
        kept = purged_at is None or stated_at >= purged_at
        await refuse(connection, owner_id, write, origin, Rejection.OUTDATED, None, kept=kept)
        return Written(outcome, current, Rejection.OUTDATED)
    fact_id = await _insert(connection, owner_id, write, origin, stated_at)
    detail = {
        "fact_id": str(fact_id),
        "key_digest": digest.hex()[:16],
        "confidence": write.confidence,
        "supersedes": None if current is None else str(current.id),
    }
    await account(connection, owner_id, "fact_written", origin, detail)
    return Written(outcome, fact_of(await row_of(connection, owner_id, fact_id)))


async def _unpurged(connection: Connection, evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Those on which no purged fact rested."""
    rows = await connection.fetch(_PURGED_EVIDENCE, *_pairs(evidence))
    gone = {Evidence(row["session_id"], row["message_id"]) for row in rows}
    return tuple(each for each in evidence if each not in gone)


async def _insert(
    connection: Connection, owner_id: UUID, write: FactWrite, origin: Origin, stated_at: datetime
) -> UUID:
    fact_id = uuid4()
    digest = key_digest(owner_id, write.scope, write.key)
    superseded = await connection.fetch(_SUPERSEDE, owner_id, write.scope, write.key, digest)
    await connection.execute(
        _INSERT,
        fact_id,
        owner_id,
        write.scope,
        write.key,
        write.value,
        list(write.tags),
        write.confidence,
        origin.run,
        origin.write_key,
        stated_at,
        words.stored(" ".join(write.tags)),
        words.stored(write.key),
        words.stored(write.value),
        digest,
    )
    for old in superseded:  # several only where old rows spell the key in several ways
        await connection.execute(_LINK, old["id"], fact_id)
    await _support(connection, owner_id, fact_id, write.evidence)
    return fact_id


async def _support(
    connection: Connection,
    owner_id: UUID,
    fact_id: UUID,
    evidence: Sequence[Evidence],
    after: int = 0,
) -> None:
    if evidence:
        await connection.execute(_SUPPORT, fact_id, *_pairs(evidence), after, owner_id)


async def _restate(
    connection: Connection, fact: Fact, evidence: Sequence[Evidence], stated_at: datetime
) -> None:
    """The fact was said once more: that supports it, and older words no longer undo it."""
    room = MAX_EVIDENCE - len(fact.evidence)
    new = [each for each in evidence if each not in fact.evidence][:room]
    if new:
        await _support(connection, fact.owner_id, fact.id, new, len(fact.evidence))
        await connection.execute(_RESTATE, fact.id, stated_at)


async def refuse(
    connection: Connection,
    owner_id: UUID,
    write: FactWrite,
    origin: Origin,
    reason: Rejection,
    threshold: float | None,
    *,
    kept: bool = True,
) -> None:
    """Account for a write that is not believed; `kept`: as a candidate, too."""
    if kept:
        await connection.execute(
            _CANDIDATE,
            owner_id,
            origin.run,
            origin.write_key or f"fact:{owner_id}:{uuid4()}",
            write.scope,
            write.key,
            write.value,
            write.confidence,
            reason,
        )
    detail = {
        "key": write.key if kept else None,
        "key_digest": key_digest(owner_id, write.scope, write.key).hex()[:16],
        "confidence": write.confidence,
        "threshold": threshold,
        "reason": reason,
    }
    await account(connection, owner_id, "fact_rejected", origin, detail)


async def to_be_kept(connection: Connection, owner_id: UUID, write: FactWrite) -> bool:
    """Whether a refused write may be kept as a candidate: what was purged must not come back as
    one. Inside the key's lock."""
    digest = key_digest(owner_id, write.scope, write.key)
    purged_at = await connection.fetchval(_PURGED_AT, owner_id, write.scope, digest)
    if purged_at is None:
        return True
    if not write.evidence:  # nothing says that it was said since
        return False
    return await when_stated(connection, owner_id, write.evidence) >= purged_at


async def when_stated(
    connection: Connection, owner_id: UUID, evidence: Sequence[Evidence]
) -> datetime:
    """When the newest of these messages was said; now, if there are none."""
    row = await connection.fetchrow(_STATED, owner_id, *_pairs(evidence))
    assert row is not None
    if row["messages"] != len(evidence):
        raise InvalidInput("evidence", "names what is not a message of this owner")
    return row["at"]


async def done_by(connection: Connection, write_key: str | None) -> Written | None:
    """What this write key did before."""
    if write_key is None:
        return None
    if row := await connection.fetchrow(WRITTEN_BY, write_key):
        return Written(Outcome.WRITTEN, fact_of(row))
    if reason := await connection.fetchval(_REFUSED, write_key):
        outdated = reason == Rejection.OUTDATED
        return Written(Outcome.OUTDATED if outdated else Outcome.REJECTED, None, Rejection(reason))
    return None


async def account(
    connection: Connection, owner_id: UUID, kind: str, origin: Origin, detail: dict[str, Any]
) -> None:
    """A row of the audit trail. Never the value: what is purged has to be gone from here, too."""
    tool = None
    if origin.run is not None:
        tool = "memory_forget" if kind == "fact_forgotten" else "memory_write"
    await connection.execute(
        _ACCOUNT,
        owner_id,
        origin.actor,
        kind,
        origin.run,
        tool,
        origin.write_key,
        json.dumps(detail),
    )


async def versions_of(
    connection: Connection, owner_id: UUID, scope: str, key: str
) -> tuple[Fact, ...]:
    digest = key_digest(owner_id, scope, key)
    rows = await connection.fetch(VERSIONS, owner_id, scope, key, digest)
    return tuple(fact_of(row) for row in rows)


async def row_of(connection: Connection, owner_id: UUID, fact_id: UUID) -> Row | None:
    return await connection.fetchrow(GET, owner_id, fact_id)


async def lock(connection: Connection, owner_id: UUID, scope: str, key: str) -> None:
    """Held to the end of the transaction, for the key however it is spelled: a purge waits for
    writers of all its spellings, and they for it."""
    await connection.execute(_LOCK, f"fact:{key_digest(owner_id, scope, key).hex()}")


def _pairs(evidence: Sequence[Evidence]) -> tuple[list[UUID], list[str]]:
    return [each.session_key for each in evidence], [each.message_id for each in evidence]
