"""What a run needs to know about itself, and the profile that is frozen into it when it begins."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from adapters.postgres.pool import Pool, reconnecting
from adapters.postgres.run_rows import request_of
from domain.errors import NotFound
from domain.events import RunStatus
from domain.messages import Origin
from domain.profiles import SessionType
from domain.runs import RunRequest

_LOAD = """
SELECT r.id, r.owner_id, r.session_id, r.run_id, r.origin, r.status, r.request, r.profile,
       r.started_at, r.created_at, s.profile AS session_profile, s.type AS session_type,
       u.locale, u.timezone,
       ARRAY(SELECT m.id FROM messages m WHERE m.run_id = r.id AND m.role = 'user'
                   AND NOT m.metadata ? 'brought'
             ORDER BY m.seq) AS user_message_ids,
       ARRAY(SELECT m.id FROM messages m WHERE m.session_id = r.session_id AND m.role = 'user'
                   AND NOT m.hidden_from_user AND m.seq < r.first_message_seq
             ORDER BY m.seq DESC LIMIT 1) AS asked_before
FROM runs r JOIN sessions s ON s.id = r.session_id JOIN users u ON u.id = r.owner_id
WHERE r.id = $1
"""
_FREEZE = """
UPDATE runs SET status = 'running', started_at = COALESCE(started_at, now()),
       profile = COALESCE(profile, $2::jsonb), profile_name = COALESCE(profile_name, $3),
       executor = COALESCE(executor, $4)
WHERE id = $1 AND status IN ('accepted', 'running')
RETURNING profile, started_at
"""


@dataclass(frozen=True, slots=True)
class RunContext:
    """A run, its session and its owner. `profile`: the frozen profile as JSON, once it began."""

    key: UUID
    owner_id: UUID
    session_key: UUID
    run_id: str
    origin: Origin
    status: RunStatus
    request: RunRequest
    profile: str | None
    began_at: datetime  # accepted at, until it begins
    user_message_ids: tuple[str, ...]  # the messages it answers
    session_profile: str | None
    session_type: SessionType
    locale: str
    timezone: str


class FrozenStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def load(self, run_key: UUID) -> RunContext:
        """Raises NotFound."""
        row = await self._pool.fetchrow(_LOAD, run_key)
        if row is None:
            raise NotFound(f"There is no run {run_key}.")
        return RunContext(
            key=row["id"],
            owner_id=row["owner_id"],
            session_key=row["session_id"],
            run_id=row["run_id"],
            origin=Origin(row["origin"]),
            status=RunStatus(row["status"]),
            request=request_of(row["request"]),
            profile=row["profile"],
            began_at=row["started_at"] or row["created_at"],
            # A run that answers once more brings no message of its own.
            user_message_ids=tuple(row["user_message_ids"] or row["asked_before"]),
            session_profile=row["session_profile"],
            session_type=SessionType(row["session_type"]),
            locale=row["locale"],
            timezone=row["timezone"],
        )

    @reconnecting
    async def freeze(
        self, run_key: UUID, profile: str, name: str, executor: str
    ) -> tuple[str, datetime] | None:
        """Put the profile (JSON) into the run and mark it running; the first one put in stays.

        Returns (frozen profile, when the run began), None if the run has ended.
        """
        row = await self._pool.fetchrow(_FREEZE, run_key, profile, name, executor)
        return None if row is None else (row["profile"], row["started_at"])
