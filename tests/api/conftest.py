"""The API with a worker behind it: what a client of the whole product talks to."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.api.relay import Relay
from tests.fixtures_api import Api, Person, serving_api
from tests.fixtures_worker import System

CORS_ORIGIN = "https://app.example"


@pytest.fixture
async def served(system: System, tmp_path: Path) -> AsyncGenerator[Api]:
    """Runs that are posted here are worked on."""
    async with serving_api(system.settings, system.pool) as api:
        yield api


@pytest.fixture
async def alice(api: Api) -> Person:
    return await api.person("alice")


@pytest.fixture
async def relay() -> AsyncGenerator[Relay]:
    """Stands between the API and one server, and can be cut."""
    async with Relay() as relay:
        yield relay
