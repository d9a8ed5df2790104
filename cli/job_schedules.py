"""Schedules of one owner's jobs, made at once rather than at the next reconciliation."""

from datetime import UTC, datetime
from uuid import UUID

from temporalio.client import Client

from adapters.postgres.jobs import JobStore
from adapters.postgres.pool import create_pool
from adapters.schedules import Schedules, policy_of
from adapters.settings import Settings


async def ensure_schedules(settings: Settings, client: Client, owner_id: UUID) -> None:
    """Raises RPCError where the engine can't be reached."""
    schedules = Schedules(client, policy_of(settings))
    pool = await create_pool(settings.database_url, max_size=1)
    try:
        for job in await JobStore(pool).list(owner_id):
            await schedules.ensure(job, datetime.now(UTC))
    finally:
        await pool.close()
