"""A fact as a row."""

import json
from uuid import UUID

from adapters.postgres.pool import Row
from domain.facts import Evidence, Fact

COLUMNS = """facts.id, facts.owner_id, facts.scope, facts.key, facts.value, facts.tags,
       facts.confidence, facts.source_run_id, facts.stated_at, facts.created_at,
       facts.superseded_by, facts.superseded_at, facts.forgotten_at, facts.forgotten_through,
       COALESCE((SELECT json_agg(json_build_array(e.session_id, e.message_id) ORDER BY e.place)
                 FROM fact_evidence e WHERE e.fact_id = facts.id), '[]') AS evidence"""
ONE_KEY = "(facts.key_digest = $4 OR facts.key_digest IS NULL AND facts.key = $3)"
"""A key, however it is spelled; rows of the version before are known by their spelling only."""
CURRENT = "facts.superseded_at IS NULL AND facts.forgotten_at IS NULL"


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
