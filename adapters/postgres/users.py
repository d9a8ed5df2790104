"""Users and their API keys. A key is shown once; what is kept is its SHA-256."""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from adapters.postgres import jobs
from adapters.postgres.pool import Pool, Row, reconnecting
from domain.errors import InvalidInput, NotFound
from domain.identity import DEFAULT_SCOPES, ApiKey, Scope, User, UserRole
from domain.zones import zone_of

_USER = "id, name, role, locale, timezone, created_at"
_KEY = "id, user_id, prefix, scopes, loopback_only, created_at, expires_at, revoked_at"

_ADD_USER = f"""
INSERT INTO users (name, role, locale, timezone) VALUES ($1, $2, $3, $4)
RETURNING {_USER}
"""  # noqa: S608 (a constant)
_LIST_USERS = f"SELECT {_USER} FROM users ORDER BY name"  # noqa: S608
_GET_USER = f"SELECT {_USER} FROM users WHERE id = $1"  # noqa: S608
_FIND_USER = f"SELECT {_USER} FROM users WHERE name = $1"  # noqa: S608
_CREATE_KEY = f"""
INSERT INTO api_keys (user_id, prefix, hash, scopes, loopback_only, expires_at)
VALUES ($1, $2, $3, $4, $5, $6)
RETURNING {_KEY}
"""  # noqa: S608
_FIND_KEY = """
SELECT u.id, u.name, u.role, u.locale, u.timezone, u.created_at, k.scopes, k.loopback_only
FROM api_keys k JOIN users u ON u.id = k.user_id
WHERE k.hash = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
"""
_LIST_KEYS = f"""
SELECT {_KEY} FROM api_keys
WHERE $1::uuid IS NULL OR user_id = $1
ORDER BY created_at, id
"""  # noqa: S608
_REVOKE = f"""
UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE prefix = $1 OR id::text = $1
RETURNING {_KEY}
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """Whom a valid key belongs to, and how far it goes."""

    user: User
    scopes: tuple[Scope, ...]
    loopback_only: bool


class UserStore:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def add_user(
        self,
        name: str,
        role: UserRole = UserRole.USER,
        locale: str = "en",
        timezone: str = "Asia/Shanghai",
    ) -> User:
        """A new user, with the daily memory job that everyone has.

        Raises InvalidInput for a name that is taken or empty, or an unknown time zone.
        """
        zone_of(timezone)
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(_ADD_USER, name, role, locale, timezone)
                user = _found(row)
                await jobs.insert(connection, user.id, jobs.daily_memory(locale, timezone))
        except asyncpg.UniqueViolationError as error:
            raise InvalidInput("name", f"There is a user called {name!r} already.") from error
        except asyncpg.CheckViolationError as error:
            raise InvalidInput("name", "A user needs a name.") from error
        return user

    @reconnecting
    async def list_users(self) -> list[User]:
        return [_user(row) for row in await self._pool.fetch(_LIST_USERS)]

    @reconnecting
    async def get_user(self, user_id: UUID) -> User:
        """Raises NotFound."""
        return _found(await self._pool.fetchrow(_GET_USER, user_id))

    @reconnecting
    async def find_user(self, name: str) -> User:
        """Raises NotFound."""
        return _found(await self._pool.fetchrow(_FIND_USER, name))

    async def create_key(
        self,
        user_id: UUID,
        scopes: Sequence[Scope] = DEFAULT_SCOPES,
        *,
        expires_at: datetime | None = None,
        loopback_only: bool = False,
    ) -> tuple[ApiKey, str]:
        """A new key and its plaintext `vk_<prefix>_<secret>`, which is not kept anywhere.

        The secret has 256 random bits, so a plain SHA-256 of it can't be searched for.
        Raises NotFound for an unknown user.
        """
        prefix = secrets.token_hex(4)
        plaintext = f"vk_{prefix}_{secrets.token_urlsafe(32)}"
        try:
            row = await self._pool.fetchrow(
                _CREATE_KEY,
                user_id,
                prefix,
                _hash(plaintext),
                list(scopes),
                loopback_only,
                expires_at,
            )
        except asyncpg.ForeignKeyViolationError as error:
            raise NotFound("There is no such user.") from error
        return _key(row), plaintext

    @reconnecting
    async def find_by_key(self, plaintext: str) -> KeyHolder | None:
        """Who holds this key; None when it is unknown, revoked or expired."""
        row = await self._pool.fetchrow(_FIND_KEY, _hash(plaintext))
        if row is None:
            return None
        return KeyHolder(_user(row), _scopes(row["scopes"]), row["loopback_only"])

    @reconnecting
    async def list_keys(self, user_id: UUID | None = None) -> list[ApiKey]:
        """Oldest first, revoked and expired ones too; of every user when none is given."""
        return [_key(row) for row in await self._pool.fetch(_LIST_KEYS, user_id)]

    @reconnecting
    async def revoke(self, key: str) -> ApiKey:
        """Revoke by id or prefix; harmless when done already. Raises NotFound."""
        row = await self._pool.fetchrow(_REVOKE, key)
        if row is None:
            raise NotFound(f"There is no key {key}.")
        return _key(row)


def _hash(plaintext: str) -> bytes:
    return hashlib.sha256(plaintext.encode("utf-8", "surrogatepass")).digest()


def _scopes(names: list[str]) -> tuple[Scope, ...]:
    """Scopes that this version knows; what an older or newer one wrote grants nothing."""
    return tuple(scope for scope in Scope if scope.value in names)


def _found(row: Row | None) -> User:
    if row is None:
        raise NotFound("There is no such user.")
    return _user(row)


def _user(row: Row) -> User:
    return User(
        row["id"],
        row["name"],
        UserRole(row["role"]),
        row["locale"],
        row["timezone"],
        row["created_at"],
    )


def _key(row: Row) -> ApiKey:
    return ApiKey(
        row["id"],
        row["user_id"],
        row["prefix"],
        _scopes(row["scopes"]),
        row["loopback_only"],
        row["created_at"],
        row["expires_at"],
        row["revoked_at"],
    )
