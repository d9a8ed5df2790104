"""Rollout rules: an operator's way to move a share of the traffic to another profile, at once."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from adapters.postgres.pool import Pool, Row, reconnecting
from domain.errors import InvalidInput, NotFound
from domain.profiles import Rollout
from domain.text import clean

_COLUMNS = "id, priority, owner_id, task_type, percentage, profile, created_by, created_at"

_LIST = f"SELECT {_COLUMNS} FROM rollouts ORDER BY priority, created_at, id"  # noqa: S608 (constant)
_ADD = f"""
INSERT INTO rollouts (priority, owner_id, task_type, percentage, profile, created_by)
VALUES ($1, $2, $3, $4, $5, $6)
RETURNING {_COLUMNS}
"""  # noqa: S608
_REMOVE = "DELETE FROM rollouts WHERE id = $1 RETURNING id"


@dataclass(frozen=True, slots=True)
class RolloutRow:
    """A rule and who made it. Lower priority is asked first; the first that matches decides."""

    rule: Rollout
    priority: int
    created_by: UUID | None
    created_at: datetime


class RolloutStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def list(self) -> tuple[RolloutRow, ...]:
        """In the order in which they are asked."""
        return tuple(_row(row) for row in await self._pool.fetch(_LIST))

    async def add(
        self,
        profile: str,
        percentage: float,
        *,
        owner_id: UUID | None = None,
        task_type: str | None = None,
        priority: int = 100,
        created_by: UUID | None = None,
    ) -> RolloutRow:
        """`percentage`: 0 to 100. Whether there is such a profile is the caller's to check.

        Raises InvalidInput naming the field.
        """
        if not 0 <= percentage <= 100:  # NaN too
            raise InvalidInput("percentage", "must be from 0 to 100")
        if not -(2**31) <= priority < 2**31:
            raise InvalidInput("priority", "is out of range")
        row = await self._pool.fetchrow(
            _ADD,
            priority,
            owner_id,
            task_type and clean(task_type),
            percentage,
            clean(profile),
            created_by,
        )
        return _row(row)

    @reconnecting
    async def remove(self, rule_id: UUID) -> None:
        """Raises NotFound."""
        if await self._pool.fetchrow(_REMOVE, rule_id) is None:
            raise NotFound(f"There is no rollout rule {rule_id}.")


def _row(row: Row) -> RolloutRow:
    owner = row["owner_id"]
    return RolloutRow(
        rule=Rollout(
            id=str(row["id"]),
            profile=row["profile"],
            percentage=round(row["percentage"], 4),  # stored as a 4-byte float
            owner_id=None if owner is None else str(owner),
            task_type=row["task_type"],
        ),
        priority=row["priority"],
        created_by=row["created_by"],
        created_at=row["created_at"],
    )
