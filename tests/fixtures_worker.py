"""A whole Varve without the API: worker, engine, database, stream and stand-in model, all real."""

import contextlib
import json
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from temporalio.client import Client, WorkflowHandle

from activities.start import start_run
from adapters import settings
from adapters.embeddings import open_embedder
from adapters.llm.openai import OpenAIModel, build_client
from adapters.postgres.events import EventStore
from adapters.postgres.messages import MessageStore
from adapters.postgres.pool import Pool
from adapters.postgres.runs import RunStore
from adapters.settings import Settings
from adapters.stream import EventStream, open_redis
from adapters.tools.registry import Tool
from domain.events import DurableEvent, RunEvent
from domain.ids import run_workflow_id
from domain.messages import Message
from domain.runs import AgentRunResult, Run, RunRequest
from tests.fixtures_standin import Standin
from tests.people import add_owner, new_run
from workers.agent import build
from workers.parts import assemble


@dataclass(frozen=True)
class System:
    """What a test may look at and act through."""

    settings: Settings
    client: Client
    pool: Pool
    stream: EventStream
    owner: UUID

    async def start(
        self, text: str, *, thread_id: str | None = None, request: RunRequest | None = None
    ) -> Run:
        """Accept a run and start its workflow, as the API does."""
        new = new_run(
            self.owner, text, thread_id=thread_id or f"thread-{uuid4().hex}", request=request
        )
        accepted = await RunStore(self.pool).accept(new)
        assert accepted.started is not None
        await self.stream.publish(accepted.run.key, [accepted.started])
        await start_run(self.client, accepted.run, self.settings.run_queue)
        return accepted.run

    async def run(
        self, text: str, *, thread_id: str | None = None, request: RunRequest | None = None
    ) -> Run:
        """Start a run and wait until it is over, however it ends."""
        run = await self.start(text, thread_id=thread_id, request=request)
        with contextlib.suppress(Exception):
            await self.handle(run).result()
        return await self.look(run)

    def handle(self, run: Run) -> WorkflowHandle[Any, AgentRunResult]:
        return self.client.get_workflow_handle(run_workflow_id(run.key), result_type=AgentRunResult)

    async def look(self, run: Run) -> Run:
        return await RunStore(self.pool).get_by_key(run.key)

    async def messages(self, run: Run) -> tuple[Message, ...]:
        return await MessageStore(self.pool).conversation(run.session_key, 10**9)

    async def events(self, run: Run) -> list[DurableEvent | RunEvent]:
        return [item.event for item in await EventStore(self.pool).load(run.key)]

    async def audit(self, run: Run) -> list[tuple[str, str | None, dict[str, Any]]]:
        rows = await self.pool.fetch(
            "SELECT kind, tool, detail FROM audit WHERE run_id = $1 ORDER BY id", run.key
        )
        return [(row["kind"], row["tool"], json.loads(row["detail"])) for row in rows]


def settings_for(
    *, database_url: str, redis_url: str, temporal_address: str, standin: Standin, folder: Path
) -> Settings:
    """Settings of one test's own system: its own queue, its own folder, short waits."""
    return settings.load(
        {},
        database_url=database_url,
        redis_url=redis_url,
        temporal_address=temporal_address,
        run_queue=f"runs-{uuid4().hex}",
        model_base_url=standin.base_url,
        workspace_dir=folder,
        heartbeat_timeout_s=2.0,
        retry_s=0.05,
        reconcile_s=0.5,
        log_format="text",
    )


@contextlib.asynccontextmanager
async def serving(
    config: Settings,
    client: Client,
    pool: Pool,
    more_tools: Iterable[Tool[Any]] = (),
    **options: Any,
) -> AsyncGenerator[EventStream]:
    """A worker process's inside, wired as in production; yields its stream writer."""
    async with contextlib.AsyncExitStack() as stack:
        redis = await stack.enter_async_context(open_redis(config.redis_url))
        stream = EventStream(redis, config.stream_cap, config.stream_ttl_s)
        provider = await stack.enter_async_context(build_client(config))
        model = OpenAIModel(provider, dialect=config.model_dialect)
        embedder = await stack.enter_async_context(open_embedder(config))
        parts = assemble(
            config,
            client=client,
            pool=pool,
            stream=stream,
            model=model,
            embedder=embedder,
            more_tools=more_tools,
        )
        for worker in build(client, config, parts, **options):
            await stack.enter_async_context(worker)
        yield stream


@contextlib.asynccontextmanager
async def elsewhere(system: System, **changes: object) -> AsyncGenerator[System]:
    """The same system under other settings, served by a worker of its own."""
    config = system.settings.model_copy(update={"run_queue": uuid4().hex, **changes})
    async with serving(config, system.client, system.pool, max_cached_workflows=0) as stream:
        yield System(config, system.client, system.pool, stream, system.owner)


@pytest.fixture
async def system(
    temporal: Client,
    temporal_address: str,
    database_url: str,
    redis_url: str,
    pool: Pool,
    standin: Standin,
    tmp_path: Path,
) -> AsyncGenerator[System]:
    """No workflow cache: each task replays its history, so a slip in determinism fails here."""
    config = settings_for(
        database_url=database_url,
        redis_url=redis_url,
        temporal_address=temporal_address,
        standin=standin,
        folder=tmp_path / "workspaces",
    )
    async with serving(config, temporal, pool, max_cached_workflows=0) as stream:
        yield System(config, temporal, pool, stream, await add_owner(pool))
