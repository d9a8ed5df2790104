"""The API as a process would serve it: uvicorn on a free port, real stores behind it."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import uvicorn

from adapters import settings
from adapters.postgres.pool import Pool
from adapters.postgres.users import UserStore
from adapters.settings import Settings
from api.app import PREFIX, ROOT, create_app
from domain.identity import ALL_SCOPES, Scope, User, UserRole


@dataclass(frozen=True)
class Person:
    """A user with a key, and an HTTP client that uses it."""

    user: User
    key: str
    http: httpx2.AsyncClient


@dataclass(frozen=True)
class Api:
    base_url: str  # without a trailing slash, with the prefix
    settings: Settings
    pool: Pool
    drain: Callable[[], None]  # ends all open streams, as a shutdown does
    clients: list[httpx2.AsyncClient] = field(default_factory=list[httpx2.AsyncClient])

    def url(self, path: str) -> str:
        """A path as the documents have it: the agent's below the prefix, others beside it."""
        root = self.base_url.removesuffix(PREFIX)
        return f"{root}{ROOT}{path}" if path.startswith("/automation") else self.base_url + path

    async def person(
        self,
        name: str,
        role: UserRole = UserRole.USER,
        scopes: Sequence[Scope] = ALL_SCOPES,
        **options: Any,
    ) -> Person:
        users = UserStore(self.pool)
        user = await users.add_user(f"{name}-{uuid4().hex[:8]}", role)
        _, key = await users.create_key(user.id, scopes, **options)
        return Person(user, key, self.client(key))

    def client(self, key: str | None = None) -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        client = httpx2.AsyncClient(
            base_url=self.base_url, headers=headers, timeout=30, verify=False, trust_env=False
        )
        self.clients.append(client)
        return client


@asynccontextmanager
async def serving_api(config: Settings, pool: Pool) -> AsyncGenerator[Api]:
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(config)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5, lifespan="on")
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        assert not serving.done(), "the API did not start"
        await asyncio.sleep(0.01)
    drain = app.state.hub.drain
    api = Api(f"http://127.0.0.1:{listener.getsockname()[1]}{PREFIX}", config, pool, drain)
    try:
        yield api
    finally:
        for client in api.clients:
            await client.aclose()
        drain()
        server.should_exit = True
        await serving
        listener.close()


@pytest.fixture
async def api(
    database_url: str, redis_url: str, temporal_address: str, temporal: object, pool: Pool
) -> AsyncGenerator[Api]:
    """An API whose queue has no worker: runs are accepted and wait. `temporal`: registered."""
    config = settings.load(
        {},
        database_url=database_url,
        redis_url=redis_url,
        temporal_address=temporal_address,
        run_queue=f"nobody-{uuid4().hex}",
        cors_origins="https://app.example",
    )
    async with serving_api(config, pool) as api:
        yield api


def run_input(
    text: str = "hello",
    *,
    thread_id: str = "thread",
    run_id: str | None = None,
    message_id: str | None = None,
    **members: Any,
) -> dict[str, Any]:
    """What an AG-UI client posts."""
    return {
        "threadId": thread_id,
        "runId": run_id or f"run-{uuid4().hex}",
        "messages": [{"id": message_id or f"m-{uuid4().hex}", "role": "user", "content": text}],
        "tools": [],
        "context": [],
        "state": {},
        "forwardedProps": {},
        **members,
    }


@dataclass(frozen=True)
class Sent:
    """One SSE event as it was on the wire."""

    id: int | None
    frame: dict[str, Any]


def parse(body: str) -> list[Sent]:
    """Events of a whole stream. Fails on what would be fatal to a client."""
    assert "\r" not in body
    sent: list[Sent] = []
    for block in body.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if not lines:
            continue
        members = dict(line.split(": ", 1) for line in lines)
        assert len(members) == len(lines), block
        id = int(members["id"]) if "id" in members else None
        sent.append(Sent(id, json.loads(members["data"])))
    return sent


async def accepted(person: Person, **fields: Any) -> dict[str, Any]:
    """Start a run and don't wait for it: the 202 body."""
    response = await person.http.post(
        "/runs", json=run_input(**fields), headers={"accept": "application/json"}
    )
    assert response.status_code == 202, response.text
    return response.json()
