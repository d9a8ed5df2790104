"""What a job has not read yet is found without a look at what it has."""

from uuid import UUID

from adapters.postgres.jobs import JobStore
from adapters.postgres.pool import Pool
from adapters.postgres.windows import UNREAD
from domain.cutting import MAX_USER_MESSAGES
from tests.adapters.test_window_plan import nodes, pages, plan_of, session_of

_NEW = 100  # messages behind the watermark


async def _read_session(pool: Pool, messages: int) -> tuple[UUID, UUID]:
    """(job, owner) of a session that the job has read but for its last messages."""
    session = await session_of(pool, messages)
    owner = await pool.fetchval("SELECT owner_id FROM sessions WHERE id = $1", session)
    job = (await JobStore(pool).ensure_daily_memory(owner, "en", "UTC")).id
    await pool.execute("UPDATE runs SET status = 'completed' WHERE session_id = $1", session)
    await pool.execute("UPDATE sessions SET last_seq = $2 WHERE id = $1", session, messages)
    await pool.execute(
        "INSERT INTO job_watermarks (job_id, session_id, owner_id, seq) VALUES ($1, $2, $3, $4)",
        *(job, session, owner, messages - _NEW),
    )
    return job, owner


async def test_a_long_past_costs_the_next_window_nothing(pool: Pool) -> None:
    short, long = await _read_session(pool, 200), await _read_session(pool, 200_000)
    await pool.execute("VACUUM ANALYZE messages")
    trees = [
        await plan_of(pool, UNREAD, job, owner, MAX_USER_MESSAGES) for job, owner in (short, long)
    ]
    for tree in trees:
        scanned = [n for n in nodes(tree) if n.get("Relation Name") == "messages"]
        assert scanned
        assert not [n for n in scanned if n["Node Type"] == "Seq Scan"]
    # Twice, for the deeper tree; reading what was read would be hundreds of times.
    assert pages(trees[1]) <= 2 * pages(trees[0])
    rows = await pool.fetch(UNREAD, *long, MAX_USER_MESSAGES)
    assert len(rows) == MAX_USER_MESSAGES
    assert min(row["seq"] for row in rows) > 200_000 - _NEW
