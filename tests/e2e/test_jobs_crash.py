"""The worker dies between and inside the windows of a memory job; each message is read once."""

from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from adapters.postgres.jobs import JobStore
from adapters.postgres.pool import Pool, create_pool
from adapters.postgres.users import UserStore
from adapters.schedules import Schedules, policy_of
from adapters.temporal import connect
from tests.e2e.stack import Stack, until
from tests.jobs import said, times_read

pytestmark = pytest.mark.anyio

MESSAGES = 70  # four windows

DONE = "SELECT count(*) FROM job_windows WHERE status = 'done' AND owner_id = $1"
ENDED = "SELECT count(*) FROM job_slots WHERE status = 'completed' AND owner_id = $1"
FACTS = """
SELECT f.key, f.value, array_agg(m.content) AS evidence
FROM facts f JOIN fact_evidence e ON e.fact_id = f.id
JOIN messages m ON m.session_id = e.session_id AND m.id = e.message_id AND m.owner_id = f.owner_id
WHERE f.owner_id = $1 GROUP BY f.id
"""


@pytest.fixture
async def pool(stack: Stack) -> AsyncGenerator[Pool]:
    pool = await create_pool(stack.settings.database_url, max_size=4)
    yield pool
    await pool.close()


async def test_killed_workers_leave_no_message_unread_and_none_read_twice(
    stack: Stack, pool: Pool
) -> None:
    user = await UserStore(pool).add_user(f"user-{uuid4().hex}")
    for number in range(MESSAGES):
        text = f"My code{number} is value{number}."
        await said(pool, user.id, text, thread_id=f"thread-{number % 3}")
    [job] = await JobStore(pool).list(user.id)
    client = await connect(stack.temporal.address, "default")
    schedules = Schedules(client, policy_of(stack.settings))
    await schedules.ensure(job, datetime.now(UTC))
    await schedules.trigger(job.id)
    for done in (0, 1, 2):

        async def so_far(done: int = done) -> bool:
            return await pool.fetchval(DONE, user.id) >= done

        await until(so_far, f"{done} windows done")
        await stack.crash(stack.worker)

    async def ended() -> bool:
        return await pool.fetchval(ENDED, user.id) == 1

    await until(ended, "the slot is completed")
    assert await times_read(pool, user.id) == {1: MESSAGES}
    facts = await pool.fetch(FACTS, user.id)
    assert len(facts) == MESSAGES
    for fact in facts:
        assert len(fact["evidence"]) == 1
        assert fact["value"] in fact["evidence"][0]
    await schedules.delete(job.id)
