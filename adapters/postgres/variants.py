"""Variants of a conversation: answered once more, or gone on with elsewhere."""

from uuid import UUID

from adapters.postgres.acceptance import LOCK_SESSION
from adapters.postgres.pool import Pool, reconnecting
from domain.errors import InvalidInput, NotFound
from domain.ids import session_key

_LATEST = """
SELECT r.id = (SELECT l.id FROM runs l WHERE l.session_id = r.session_id
               AND l.status <> 'queued' ORDER BY l.created_at DESC, l.id DESC LIMIT 1)
FROM runs r WHERE r.id = $1
"""
_SUPERSEDE = """
UPDATE messages SET hidden_from_user = true,
       metadata = metadata || jsonb_build_object('superseded_by', $2::text)
WHERE run_id = $1 AND role <> 'user' AND NOT hidden_from_user
"""
_PLACE = """
SELECT seq FROM messages WHERE session_id = $1 AND id = $2 AND NOT hidden_from_user
"""
_LAST_OF_RUN = "SELECT max(seq) FROM messages WHERE run_id = $1 AND NOT hidden_from_user"
_FORK = """
INSERT INTO sessions (id, owner_id, thread_id, type, profile, title, last_seq, forked_from,
                      forked_through)
SELECT $1, s.owner_id, $2, s.type, s.profile, s.title, $5, s.id, $5 FROM sessions s
WHERE s.id = $3 AND s.owner_id = $4 ON CONFLICT DO NOTHING RETURNING id
"""
_COPY = """
INSERT INTO messages (session_id, seq, id, owner_id, run_id, role, content, tool_calls,
                      tool_call_id, metadata, created_at)
SELECT $1, row_number() OVER (ORDER BY seq), id, owner_id, run_id, role, content, tool_calls,
       tool_call_id, metadata || '{"copied": true}', created_at
FROM messages WHERE session_id = $2 AND seq <= $3 AND NOT hidden_from_user
"""
_COUNT = """
SELECT count(*) FROM messages WHERE session_id = $1 AND seq <= $2 AND NOT hidden_from_user
"""


class VariantStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    @reconnecting
    async def is_latest(self, run_key: UUID) -> bool:
        """Whether no run of its session came after this one."""
        return bool(await self._pool.fetchval(_LATEST, run_key))

    @reconnecting
    async def supersede(self, run_key: UUID, by_run_id: str) -> None:
        """Take what a run said out of the conversation, but not what it was asked."""
        await self._pool.execute(_SUPERSEDE, run_key, by_run_id)

    @reconnecting
    async def fork(
        self, owner_id: UUID, source: UUID, thread_id: str, *, run_key: UUID, message_id: str | None
    ) -> None:
        """A session of its own with what was said up to and with this message; by default the last
        of the run.

        Raises NotFound for an unknown message, InvalidInput for a thread that is there already.
        """
        target = session_key(owner_id, thread_id)
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.fetchval(LOCK_SESSION, source)
            through = await (
                connection.fetchval(_LAST_OF_RUN, run_key)
                if message_id is None
                else connection.fetchval(_PLACE, source, message_id)
            )
            if through is None:
                raise NotFound("There is no such message in this session.")
            count = await connection.fetchval(_COUNT, source, through)
            where = (target, thread_id, source, owner_id, count)
            if await connection.fetchval(_FORK, *where) is None:
                raise InvalidInput("threadId", "There is a session of this id already.")
            await connection.execute(_COPY, target, source, through)
