"""The connection pool, and what to do when a connection dies under us."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, cast

import asyncpg
import structlog

Row: TypeAlias = Any
"""A row, by column name. asyncpg is untyped; the store that wrote the SQL knows its columns."""


class Queries(Protocol):
    """What stores use of a connection."""

    async def execute(self, query: str, *args: object) -> str: ...
    async def executemany(self, query: str, args: object) -> None: ...
    async def fetch(self, query: str, *args: object) -> list[Row]: ...
    async def fetchrow(self, query: str, *args: object) -> Row | None: ...
    async def fetchval(self, query: str, *args: object) -> Any: ...


class Connection(Queries, Protocol):
    def transaction(self) -> AbstractAsyncContextManager[None]: ...


class Pool(Queries, Protocol):
    """A pool of connections; a query on it takes one for that query."""

    def acquire(self) -> AbstractAsyncContextManager[Connection]: ...
    async def close(self) -> None: ...


P = ParamSpec("P")
T = TypeVar("T")

LOST: tuple[type[Exception], ...] = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.DeadlockDetectedError,  # chosen to give way: all of it is undone and may be repeated
    ConnectionError,
    TimeoutError,
    OSError,
)
"""What asyncpg raises when the server or connection is gone, not the statement wrong."""

_DELAYS_S = (0.0, 0.1, 0.4, 1.5)

_log = structlog.get_logger(__name__)


async def create_pool(url: str, *, max_size: int = 10) -> Pool:
    """A pool whose connections come up on demand."""
    pool: Any = await asyncpg.create_pool(
        url, min_size=1, max_size=max_size, command_timeout=30, init=_init, reset=_reset
    )
    return cast(Pool, pool)


async def _init(connection: Connection) -> None:
    # Ours are short statements on indexed rows; a compiled plan costs more than it saves.
    await connection.execute("SET jit = off")


async def _reset(connection: Connection) -> None:
    """Nothing: no store leaves session state behind (locks are of transactions, nobody listens).

    The default would be one more round trip after every statement, and undo `_init`.
    """


def constraint(error: asyncpg.PostgresError) -> str | None:
    """The name of the constraint that a statement ran into."""
    return getattr(error, "constraint_name", None)


def reconnecting(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Repeat a store method whose connection was lost, for about two seconds in all.

    Only for methods that may run twice: whether the first commit arrived can't be known.
    """

    @functools.wraps(method)
    async def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        for delay in _DELAYS_S:
            try:
                return await method(*args, **kwargs)
            except LOST as error:
                _log.warning("database_connection_lost", method=method.__name__, error=repr(error))
                await asyncio.sleep(delay)
        return await method(*args, **kwargs)

    return wrapped
