"""What happens to checkpoints, told: events, audit, and whether their run stands still."""

import json
from datetime import datetime
from uuid import UUID

from adapters.postgres.events import append
from adapters.postgres.pool import Connection, Row
from domain.checkpoints import Change, Scenario, Severity, Via
from domain.events import CheckpointChanged, DurableEvent, Recorded, RunPaused, RunResumed
from domain.ids import run_key as key_of
from domain.messages import Usage

_OPEN_IDS = """
SELECT id FROM checkpoints WHERE run_id = $1 AND state = 'open' AND blocking
ORDER BY opened_at, created_at, id
"""
_SEGMENT = """
INSERT INTO run_segments (key, run_key, number, owner_id, run_id, digest)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING number
"""
_STAND = "UPDATE runs SET paused = $2, segment = $3 WHERE id = $1"
_AUDIT = """
INSERT INTO audit (owner_id, actor_id, kind, run_id, session_id, tool, origin, executor, profile,
                   dedupe_key, detail)
VALUES ($1, $2, $3, $4, $5, (SELECT tool FROM checkpoints WHERE id = $6), $7, $8, $9, $10, $11)
ON CONFLICT (dedupe_key) DO NOTHING
"""


class ChangeLog:
    """Writes events and audit of one transaction, in order."""

    def __init__(self, connection: Connection, run: Row) -> None:
        self._connection = connection
        self._run = run
        self._paused: bool = run["paused"]
        self._segment: int = run["segment"]
        self.events: list[Recorded] = []
        self.run_id: str | None = None

    async def change(self, row: Row, change: Change, actor: UUID | None = None) -> None:
        deadline: datetime | None = row["deadline"]
        event = CheckpointChanged(
            checkpoint_id=str(row["id"]),
            change=change,
            scenario=Scenario(row["scenario"]),
            severity=Severity(row["severity"]),
            blocking=row["blocking"],
            title=row["title"],
            call_id=row["call_id"],
            deadline_ms=None if deadline is None else int(deadline.timestamp() * 1000),
            reminders=row["reminders"],
            action=row["action"],
            via=Via(row["via"]) if row["via"] else None,
        )
        await self._append(event)
        await self._audit(row, change, actor)

    async def pause(self) -> None:
        ids = [str(row["id"]) for row in await self._open()]
        run = self._run
        if not ids:
            return
        usage = Usage(run["input_tokens"], run["output_tokens"], run["cached_tokens"])
        await self._append(RunPaused(tuple(ids), run["through"], usage))
        self._paused = True
        await self._connection.execute(_STAND, run["id"], True, self._segment)

    async def resume(self, run_id: str | None, digest: str | None) -> None:
        """Begin the next segment, under the client's id if one asks for it."""
        if not self._paused:
            return
        run, number = self._run, self._segment + 1
        id = run_id or f"seg_{run['id'].hex}_{number}"
        await self._connection.execute(
            _SEGMENT,
            key_of(run["owner_id"], id),
            run["id"],
            number,
            run["owner_id"],
            id,
            None if digest is None else bytes.fromhex(digest),
        )
        await self._connection.execute(_STAND, run["id"], False, number)
        await self._append(RunResumed(id, number, run["through"]))
        self._paused, self._segment, self.run_id = False, number, id

    async def _open(self) -> list[Row]:
        return await self._connection.fetch(_OPEN_IDS, self._run["id"])

    async def _append(self, event: DurableEvent) -> None:
        recorded = await append(self._connection, self._run["id"], event)
        assert recorded is not None, "the run is locked and at work"
        self.events.append(recorded)

    async def _audit(self, row: Row, change: Change, actor: UUID | None) -> None:
        run, again = self._run, f":{row['reminders']}" if change is Change.REMINDED else ""
        detail = {
            "checkpoint_id": str(row["id"]),
            "scenario": row["scenario"],
            "call_id": row["call_id"],
            "action": row["action"],
            "via": row["via"],
            "reminders": row["reminders"],
        }
        await self._connection.execute(
            _AUDIT,
            run["owner_id"],
            actor,
            f"checkpoint_{change}",
            run["id"],
            run["session_id"],
            row["id"],
            run["origin"],
            run["executor"],
            run["profile_name"],
            f"checkpoint:{row['id']}:{change}{again}",
            json.dumps({name: value for name, value in detail.items() if value is not None}),
        )
