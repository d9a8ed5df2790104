"""The demo user of a local stack: an operator whose key works on this machine only."""

from dataclasses import dataclass
from uuid import UUID

from adapters.postgres.jobs import JobStore
from adapters.postgres.pool import Pool, create_pool
from adapters.postgres.users import UserStore
from cli.stack.state import State
from domain.errors import NotFound
from domain.identity import ALL_SCOPES, User, UserRole

NAME = "demo"


@dataclass(frozen=True, slots=True)
class Demo:
    owner_id: UUID
    key: str


async def ensure_demo(database_url: str, state: State) -> Demo:
    """The demo user and their key from the state folder. User, key, whatever the key may not do
    yet, and the daily memory job are made where they are missing."""
    pool = await create_pool(database_url, max_size=1)
    try:
        return await _ensure(pool, state)
    finally:
        await pool.close()


async def _ensure(pool: Pool, state: State) -> Demo:
    users = UserStore(pool)
    key = state.demo_key()
    holder = await users.find_by_key(key) if key else None
    user = holder.user if holder else await _demo_user(users)
    await JobStore(pool).ensure_daily_memory(user.id, user.locale, user.timezone)
    if key and holder and set(holder.scopes) >= set(ALL_SCOPES):
        return Demo(user.id, key)
    _, plaintext = await users.create_key(user.id, ALL_SCOPES, loopback_only=True)
    state.keep_demo_key(plaintext)
    return Demo(user.id, plaintext)


async def _demo_user(users: UserStore) -> User:
    try:
        return await users.find_user(NAME)
    except NotFound:
        return await users.add_user(NAME, UserRole.OPERATOR)
