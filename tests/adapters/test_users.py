"""Users and keys."""

from uuid import uuid4

import pytest

from adapters.postgres.pool import Pool
from adapters.postgres.users import UserStore
from domain.errors import InvalidInput, NotFound
from domain.identity import ALL_SCOPES, DEFAULT_SCOPES, UserRole


async def test_a_key_is_shown_once_and_kept_as_a_hash(pool: Pool) -> None:
    users = UserStore(pool)
    user = await users.add_user("ann", UserRole.OPERATOR, "zh", "Asia/Shanghai")
    key, plaintext = await users.create_key(user.id, ALL_SCOPES)
    assert plaintext.startswith(f"vk_{key.prefix}_")
    holder = await users.find_by_key(plaintext)
    assert holder is not None
    assert (holder.user, holder.scopes) == (user, ALL_SCOPES)
    kept = await pool.fetch("SELECT * FROM api_keys")
    assert plaintext.split("_", 2)[2] not in str([dict(row) for row in kept])


async def test_keys_differ(pool: Pool) -> None:
    users = UserStore(pool)
    user = await users.add_user("ann")
    made = [(await users.create_key(user.id))[1] for _ in range(20)]
    assert len(set(made)) == 20
    assert {key.scopes for key in await users.list_keys(user.id)} == {DEFAULT_SCOPES}


async def test_a_revoked_key_opens_nothing_and_is_still_listed(pool: Pool) -> None:
    users = UserStore(pool)
    user = await users.add_user("ann")
    key, plaintext = await users.create_key(user.id)
    revoked = await users.revoke(str(key.id))
    assert revoked.revoked_at is not None
    assert await users.revoke(key.prefix) == revoked
    assert await users.find_by_key(plaintext) is None
    assert await users.list_keys() == [revoked]


async def test_names_are_unique_and_time_zones_real(pool: Pool) -> None:
    users = UserStore(pool)
    await users.add_user("ann")
    for name, timezone in (("ann", "Asia/Shanghai"), ("", "Asia/Shanghai"), ("bob", "Mars/Base")):
        with pytest.raises(InvalidInput):
            await users.add_user(name, timezone=timezone)
    assert [user.name for user in await users.list_users()] == ["ann"]


async def test_what_is_not_there_is_not_found(pool: Pool) -> None:
    users = UserStore(pool)
    for missing in (users.create_key(uuid4()), users.revoke("nope"), users.find_user("nobody")):
        with pytest.raises(NotFound):
            await missing
