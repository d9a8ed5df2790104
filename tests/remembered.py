"""Facts for tests, and messages that they rest on, through the production stores."""

from datetime import datetime
from uuid import UUID, uuid4

from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool
from domain.facts import Evidence, Fact, FactWrite
from tests.people import accept


async def said(
    pool: Pool, owner: UUID, text: str = "so it is", *, at: datetime | None = None
) -> Evidence:
    """A message of this owner, in a session of its own; `at`: when it was said."""
    accepted = await accept(pool, owner, text, thread_id=f"thread-{uuid4().hex}")
    row = await pool.fetchrow(
        """UPDATE messages SET created_at = COALESCE($2, created_at) WHERE run_id = $1
           RETURNING session_id, id""",
        accepted.run.key,
        at,
    )
    assert row is not None
    return Evidence(row["session_id"], row["id"])


async def remember(
    store: FactStore, owner: UUID, write: FactWrite, *, write_key: str | None = None
) -> Fact:
    """What is known of this key once the write is done."""
    done = await store.write(owner, write, write_key=write_key)
    assert done.fact is not None
    return done.fact
