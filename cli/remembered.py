"""What the demo user's memory holds, read where it is kept."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool, create_pool
from adapters.postgres.users import UserStore
from cli.stack.state import Endpoints
from domain.errors import NotFound
from domain.facts import Fact
from domain.ids import run_key


async def facts_of_run(endpoints: Endpoints, run_id: str) -> tuple[Fact, ...]:
    """Current facts that this run of the demo user has written."""
    async with _pool(endpoints) as pool:
        owner = await _owner(pool, endpoints)
        facts = await FactStore(pool).list(owner)
    return tuple(fact for fact in facts if fact.source_run == run_key(owner, run_id))


async def owner_of(endpoints: Endpoints) -> UUID:
    async with _pool(endpoints) as pool:
        return await _owner(pool, endpoints)


async def _owner(pool: Pool, endpoints: Endpoints) -> UUID:
    holder = await UserStore(pool).find_by_key(endpoints.demo_api_key)
    if holder is None:
        raise NotFound("The demo key is not in the database.")
    return holder.user.id


@asynccontextmanager
async def _pool(endpoints: Endpoints) -> AsyncGenerator[Pool]:
    pool = await create_pool(endpoints.database_url, max_size=1)
    try:
        yield pool
    finally:
        await pool.close()
