"""Messages and sessions: what was said, in order. Rows are written by runs.py and turns.py."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from adapters import event_codec
from adapters.postgres.pool import Pool, Row, reconnecting
from domain.errors import NotFound
from domain.ids import session_key
from domain.messages import Message, Role
from domain.profiles import SessionType

COLUMNS = "id, seq, role, content, tool_calls, tool_call_id, hidden_from_user, metadata"

# The window: from the n-th last user message on. Both parts walk an index backwards and stop, so
# the cost does not grow with the session. `$3`: hidden messages count only where they belong.
WINDOW = f"""
SELECT {COLUMNS} FROM messages
WHERE session_id = $1
  AND seq >= COALESCE((
      SELECT min(seq) FROM (
          SELECT seq FROM messages
          WHERE session_id = $1 AND role = 'user' AND (NOT hidden_from_user OR $3)
          ORDER BY seq DESC LIMIT $2
      ) AS last_user_messages), 0)
  AND (NOT hidden_from_user OR $3)
ORDER BY seq
"""  # noqa: S608 (a constant)
_CONVERSATION = f"""
SELECT * FROM (
    SELECT {COLUMNS} FROM messages
    WHERE session_id = $1 AND seq <= $2 AND (NOT hidden_from_user OR $4)
    ORDER BY seq DESC LIMIT $3
) AS latest ORDER BY seq
"""  # noqa: S608
_ANSWER = """
SELECT content FROM messages WHERE run_id = $1 AND role = 'assistant' ORDER BY seq DESC LIMIT 1
"""
_TEXTS = "SELECT content FROM messages WHERE session_id = $1 AND id = ANY ($2) ORDER BY seq"
_GET = f"SELECT {COLUMNS} FROM messages WHERE session_id = $1 AND id = $2"  # noqa: S608
_SESSION = "id, thread_id, type, title, profile, last_seq, created_at, updated_at"
_GET_SESSION = f"SELECT {_SESSION} FROM sessions WHERE id = $1 AND owner_id = $2"  # noqa: S608
_RECOGNISED = """
SELECT thread_id FROM sessions WHERE owner_id = $1 AND fingerprint = $2
ORDER BY updated_at DESC LIMIT 1
"""
_KEEP_FINGERPRINT = "UPDATE sessions SET fingerprint = $2 WHERE id = $1"
_LIST_SESSIONS = f"""
SELECT {_SESSION} FROM sessions
WHERE owner_id = $1 AND type = $2
  AND ($3::timestamptz IS NULL OR (updated_at, id) < ($3, $4))
ORDER BY updated_at DESC, id DESC LIMIT $5
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class Session:
    key: UUID
    thread_id: str
    type: SessionType
    title: str | None
    profile: str | None
    last_seq: int
    created_at: datetime
    updated_at: datetime


class MessageStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def window(
        self, session: UUID, user_messages: int, *, include_hidden: bool = False
    ) -> tuple[Message, ...]:
        """From the n-th last user message to the end, oldest first; all if there are fewer."""
        rows = await self._pool.fetch(WINDOW, session, user_messages, include_hidden)
        return tuple(message_of(row) for row in rows)

    @reconnecting
    async def conversation(
        self, session: UUID, through_seq: int, *, limit: int = 2000, include_hidden: bool = False
    ) -> tuple[Message, ...]:
        """The last `limit` messages up to and including `through_seq`, oldest first."""
        rows = await self._pool.fetch(_CONVERSATION, session, through_seq, limit, include_hidden)
        return tuple(message_of(row) for row in rows)

    @reconnecting
    async def get(self, session: UUID, message_id: str) -> Message | None:
        row = await self._pool.fetchrow(_GET, session, message_id)
        return None if row is None else message_of(row)

    @reconnecting
    async def answer(self, run_key: UUID) -> str | None:
        """The last thing that the model said in this run."""
        return await self._pool.fetchval(_ANSWER, run_key)

    @reconnecting
    async def texts(self, session: UUID, ids: Sequence[str]) -> list[str]:
        """What these messages say, in the order of the session."""
        rows = await self._pool.fetch(_TEXTS, session, list(ids))
        return [row["content"] for row in rows]


class SessionStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def get(self, owner_id: UUID, thread_id: str) -> Session:
        """Raises NotFound, for another owner's session too."""
        key = session_key(owner_id, thread_id)
        row = await self._pool.fetchrow(_GET_SESSION, key, owner_id)
        if row is None:
            raise NotFound("There is no such session.")
        return _session(row)

    @reconnecting
    async def recognised(self, owner_id: UUID, fingerprint: bytes) -> str | None:
        """The thread whose conversation has this fingerprint, the latest if there are several."""
        return await self._pool.fetchval(_RECOGNISED, owner_id, fingerprint)

    @reconnecting
    async def keep_fingerprint(self, session: UUID, fingerprint: bytes) -> None:
        """Recognise the session's conversation, as it is now, by this."""
        await self._pool.execute(_KEEP_FINGERPRINT, session, fingerprint)

    @reconnecting
    async def list(
        self,
        owner_id: UUID,
        *,
        type: SessionType = SessionType.CHAT,
        before: tuple[datetime, UUID] | None = None,
        limit: int = 50,
    ) -> list[Session]:
        """Latest activity first. `before`: (updated_at, key) of the last one seen."""
        at, key = before or (None, None)
        rows = await self._pool.fetch(_LIST_SESSIONS, owner_id, type, at, key, limit)
        return [_session(row) for row in rows]


def message_of(row: Row) -> Message:
    return Message(
        id=row["id"],
        role=Role(row["role"]),
        content=row["content"],
        tool_calls=event_codec.load_calls(row["tool_calls"]),
        tool_call_id=row["tool_call_id"],
        hidden_from_user=row["hidden_from_user"],
        seq=row["seq"],
        metadata=json.loads(row["metadata"]),
    )


def _session(row: Row) -> Session:
    return Session(
        key=row["id"],
        thread_id=row["thread_id"],
        type=SessionType(row["type"]),
        title=row["title"],
        profile=row["profile"],
        last_seq=row["last_seq"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
