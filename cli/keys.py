"""`varve user …` and `varve key …`: who may use the API, straight in the database."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from temporalio.service import RPCError

from adapters.postgres.pool import create_pool
from adapters.postgres.users import UserStore
from cli import where
from cli.job_schedules import ensure_schedules
from cli.output import aside, console, failures, show_json, show_rows
from cli.stack.errors import StackError
from domain.identity import DEFAULT_SCOPES, ApiKey, Scope, User, UserRole

user_app = typer.Typer(no_args_is_help=True, help="Users.")
key_app = typer.Typer(no_args_is_help=True, help="API keys.")

T = TypeVar("T")
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]

ENGINE_WITHIN_S = 3.0

USER_COLUMNS = ("name", "role", "locale", "timezone", "id")
KEY_COLUMNS = ("prefix", "user_id", "scopes", "loopback_only", "expires_at", "revoked_at")


@user_app.command("add")
def add_user(
    name: str,
    role: Annotated[UserRole, typer.Option()] = UserRole.USER,
    locale: Annotated[str, typer.Option(help="Language tag.")] = "en",
    timezone: Annotated[str, typer.Option(help="IANA time zone.")] = "Asia/Shanghai",
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Add a user."""
    user = _with_users(state, lambda users: users.add_user(name, role, locale, timezone))
    with failures():
        asyncio.run(_make_schedules(state, user))
    _show([_user(user)], USER_COLUMNS, as_json)


@user_app.command("list")
def list_users(as_json: AsJson = False, state: where.StateOption = where.DEFAULT_STATE) -> None:
    """List users by name."""
    users = _with_users(state, lambda store: store.list_users())
    _show([_user(user) for user in users], USER_COLUMNS, as_json)


@key_app.command("create")
def create_key(
    user: Annotated[str, typer.Argument(help="Name of the user.")],
    scope: Annotated[list[Scope] | None, typer.Option(help="May be given several times.")] = None,
    days: Annotated[int | None, typer.Option(min=1, help="Days until it expires.")] = None,
    loopback_only: Annotated[
        bool, typer.Option("--loopback-only", help="Refuse it from other machines.")
    ] = False,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Create a key and show it, this once."""
    expires = datetime.now(UTC) + timedelta(days=days) if days else None

    async def create(users: UserStore) -> tuple[ApiKey, str]:
        found = await users.find_user(user)
        scopes = scope or DEFAULT_SCOPES
        return await users.create_key(
            found.id, scopes, expires_at=expires, loopback_only=loopback_only
        )

    key, plaintext = _with_users(state, create)
    if as_json:
        show_json({**_key(key), "key": plaintext})
        return
    aside.print("Keep it now; it can't be shown again.")
    console.print(plaintext, soft_wrap=True)


@key_app.command("list")
def list_keys(
    user: Annotated[str | None, typer.Option(help="Name of a user; default: all.")] = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """List keys, oldest first, without their secrets."""

    async def find(users: UserStore) -> list[ApiKey]:
        return await users.list_keys((await users.find_user(user)).id if user else None)

    _show([_key(key) for key in _with_users(state, find)], KEY_COLUMNS, as_json)


@key_app.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(help="Prefix or id.")],
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Revoke a key at once."""
    revoked = _with_users(state, lambda users: users.revoke(key))
    _show([_key(revoked)], KEY_COLUMNS, as_json)


def _with_users(state: Path, use: Callable[[UserStore], Awaitable[T]]) -> T:
    async def work() -> T:
        pool = await create_pool(where.database_url(state), max_size=1)
        try:
            return await use(UserStore(pool))
        finally:
            await pool.close()

    with failures():
        return asyncio.run(work())


async def _make_schedules(state: Path, user: User) -> None:
    """Of the jobs that a new user has, at once if the engine answers; else it is told."""
    settings = where.settings(state)
    try:
        async with asyncio.timeout(ENGINE_WITHIN_S):
            await ensure_schedules(settings, await where.engine(settings), user.id)
    except (StackError, RPCError, TimeoutError):
        aside.print(
            "The engine does not answer; the user's daily job gets its Schedule when it does.",
            style="yellow",
        )


def _show(items: list[dict[str, object]], columns: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        show_json(items)
    else:
        show_rows(columns, [[item[column] for column in columns] for item in items])


def _user(user: User) -> dict[str, object]:
    return {
        "id": str(user.id),
        "name": user.name,
        "role": user.role.value,
        "locale": user.locale,
        "timezone": user.timezone,
        "created_at": user.created_at.isoformat(),
    }


def _key(key: ApiKey) -> dict[str, object]:
    return {
        "id": str(key.id),
        "prefix": key.prefix,
        "user_id": str(key.user_id),
        "scopes": " ".join(key.scopes),
        "loopback_only": key.loopback_only,
        "created_at": key.created_at.isoformat(),
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
    }
