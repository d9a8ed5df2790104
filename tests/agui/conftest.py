"""The whole of Varve with the official clients in front of it."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import Client

from adapters.postgres.pool import Pool, create_pool
from adapters.settings import Settings
from tests.agui.driver import ClientRun, Driver, Generation, driving, install
from tests.conftest import own_database
from tests.fixtures_api import Person, run_input, serving_api
from tests.fixtures_standin import Standin
from tests.fixtures_worker import serving, settings_for


@dataclass(frozen=True)
class App:
    """An app of one user: clients of one generation, and the user's own HTTP client."""

    generation: Generation
    driver: Driver
    person: Person
    url: str
    stop_streams: Callable[[], None]  # as a server does that shuts down
    thread_id: str = field(default_factory=lambda: f"thread-{uuid4().hex}")

    async def ask(self, text: str, *, agent: str = "first", **members: Any) -> ClientRun:
        """The client called `agent` (made when it is new) posts what `run_input` makes."""
        body = run_input(text, thread_id=self.thread_id, **members)
        return await self.driver.start(
            generation=self.generation,
            agent=f"{self.thread_id} {agent}",
            url=self.url,
            key=self.person.key,
            **{name: body[name] for name in ("threadId", "runId", "messages", "forwardedProps")},
        )

    async def resume(
        self, *entries: dict[str, Any], agent: str = "first", **members: Any
    ) -> ClientRun:
        """The client answers the questions that its last run ended with."""
        return await self.driver.start(
            generation=self.generation,
            agent=f"{self.thread_id} {agent}",
            url=self.url,
            key=self.person.key,
            threadId=self.thread_id,
            runId=members.get("run_id", f"run-{uuid4().hex}"),
            messages=[],
            forwardedProps={},
            resume=list(entries),
        )

    async def history(self) -> list[dict[str, Any]]:
        response = await self.person.http.get(f"/sessions/{self.thread_id}/history")
        assert response.status_code == 200, response.text
        return response.json()["messages"]


@pytest.fixture(scope="session")
async def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both generations of the client in it."""
    folder = tmp_path_factory.mktemp("agui")
    await install(folder)
    return folder


@pytest.fixture(scope="session")
async def driver(clients: Path) -> AsyncGenerator[Driver]:
    async with driving(clients) as driver:
        yield driver


@pytest.fixture(scope="package")
async def backstage(
    postgres: str,
    template: str,
    valkey: str,
    temporal: Client,
    temporal_address: str,
    standin: Standin,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncGenerator[tuple[Settings, Pool]]:
    """Everything behind the API, once: each test is a user of its own, and sees only its own."""
    async with own_database(postgres, template) as url:
        config = settings_for(
            database_url=url,
            redis_url=valkey,
            temporal_address=temporal_address,
            standin=standin,
            folder=tmp_path_factory.mktemp("workspaces"),
        )
        pool = await create_pool(url, max_size=4)
        async with serving(config, temporal, pool, max_cached_workflows=0):
            yield config, pool
        await pool.close()


@pytest.fixture(params=["1.0.0", "0.0.59"])
async def app(
    request: pytest.FixtureRequest, driver: Driver, backstage: tuple[Settings, Pool]
) -> AsyncGenerator[App]:
    driver.complaints.clear()
    async with serving_api(*backstage) as api:
        person = await api.person("ada")
        yield App(request.param, driver, person, f"{api.base_url}/runs", api.drain)
