"""What a memory run reads: messages of its owner, what it answered before, which keys there are."""

from collections.abc import Sequence
from uuid import UUID

from adapters.postgres.messages import COLUMNS, message_of
from adapters.postgres.pool import Pool, Row, reconnecting
from domain.extraction import Said
from domain.facts import GLOBAL
from domain.jobs import Part

_PARTS = f"""
SELECT {COLUMNS}, session_id, created_at
FROM messages
JOIN unnest($2::uuid[], $3::bigint[], $4::bigint[])
     WITH ORDINALITY AS part (session, first, last, place)
  ON session_id = session AND seq BETWEEN first AND last
WHERE owner_id = $1 AND role IN ('user', 'assistant') AND NOT hidden_from_user
ORDER BY place, seq
"""  # noqa: S608 (a constant)
# The same whenever it is asked: nothing after the messages that the run answers.
_BEFORE = f"""
SELECT {COLUMNS}, session_id, created_at
FROM messages
WHERE session_id = $1 AND owner_id = $2 AND seq <= $3
  AND seq >= COALESCE((
      SELECT min(seq) FROM (
          SELECT seq FROM messages
          WHERE session_id = $1 AND role = 'user' AND NOT hidden_from_user AND seq <= $3
          ORDER BY seq DESC LIMIT $4
      ) AS last_user_messages), 0)
  AND role IN ('user', 'assistant') AND NOT hidden_from_user
ORDER BY seq
"""  # noqa: S608
_ASKED = """
SELECT seq, content FROM messages WHERE run_id = $1 AND role = 'user' ORDER BY seq
"""
_ANSWER = """
SELECT m.content, m.metadata ->> 'finish_reason' AS finish_reason FROM run_events e
JOIN runs r ON r.id = e.run_id
JOIN messages m ON m.session_id = r.session_id AND m.id = e.payload ->> 'message_id'
WHERE e.run_id = $1 AND e.kind = 'turn_completed' AND (e.payload ->> 'turn')::int = $2
"""
_KEYS = """
SELECT key FROM facts
WHERE owner_id = $1 AND scope = $2 AND superseded_at IS NULL AND forgotten_at IS NULL
ORDER BY created_at DESC, id LIMIT $3
"""
_MOST_KEYS = 2_000


class ReadingStore:
    """Every method is bound to one owner or one run; what is another's is as good as absent."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def parts(self, owner_id: UUID, parts: Sequence[Part]) -> tuple[Said, ...]:
        """What was said in these stretches of this owner's sessions, in the order of the parts."""
        rows = await self._pool.fetch(
            _PARTS,
            owner_id,
            [part.session_key for part in parts],
            [part.first_seq for part in parts],
            [part.last_seq for part in parts],
        )
        return tuple(_said(row) for row in rows)

    @reconnecting
    async def before(
        self, owner_id: UUID, session: UUID, through_seq: int, user_messages: int
    ) -> tuple[Said, ...]:
        """The last `user_messages` user messages of a session up to a seq, and what is between."""
        rows = await self._pool.fetch(_BEFORE, session, owner_id, through_seq, user_messages)
        return tuple(_said(row) for row in rows)

    @reconnecting
    async def asked(self, run_key: UUID) -> tuple[str, int]:
        """What the run was asked, and the seq of the last message of it."""
        rows = await self._pool.fetch(_ASKED, run_key)
        return "\n\n".join(row["content"] for row in rows), max((r["seq"] for r in rows), default=0)

    @reconnecting
    async def answer(self, run_key: UUID, turn: int) -> tuple[str, str | None]:
        """What the model said in a completed turn of the run, and why it stopped."""
        row = await self._pool.fetchrow(_ANSWER, run_key, turn)
        return ("", None) if row is None else (row["content"], row["finish_reason"])

    @reconnecting
    async def keys(self, owner_id: UUID, scope: str = GLOBAL) -> list[str]:
        """Keys of the current facts, newest first, at most 2,000."""
        rows = await self._pool.fetch(_KEYS, owner_id, scope, _MOST_KEYS)
        return [row["key"] for row in rows]


def _said(row: Row) -> Said:
    return Said(row["session_id"], message_of(row), row["created_at"])
