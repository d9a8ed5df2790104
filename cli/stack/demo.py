"""The demo user of a local stack: an operator whose key works on this machine only."""

from adapters.postgres.pool import Pool, create_pool
from adapters.postgres.users import UserStore
from cli.stack.state import State
from domain.errors import NotFound
from domain.identity import ALL_SCOPES, User, UserRole

NAME = "demo"


async def ensure_demo_key(database_url: str, state: State) -> str:
    """The demo user's key from the state folder; user and key are made where they are missing."""
    pool = await create_pool(database_url, max_size=1)
    try:
        return await _ensure(pool, state)
    finally:
        await pool.close()


async def _ensure(pool: Pool, state: State) -> str:
    users = UserStore(pool)
    key = state.demo_key()
    if key and await users.find_by_key(key):
        return key
    user = await _demo_user(users)
    _, plaintext = await users.create_key(user.id, ALL_SCOPES, loopback_only=True)
    state.keep_demo_key(plaintext)
    return plaintext


async def _demo_user(users: UserStore) -> User:
    try:
        return await users.find_user(NAME)
    except NotFound:
        return await users.add_user(NAME, UserRole.OPERATOR)
