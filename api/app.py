"""The HTTP facade. Everything it needs is made here, and nowhere else."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version

from fastapi import APIRouter, FastAPI
from fastapi.middleware.cors import CORSMiddleware
from fastapi_offline import FastAPIOffline

from adapters.embeddings import open_embedder
from adapters.live import LiveEvents
from adapters.live_hub import LiveHub
from adapters.postgres.audit import AuditStore
from adapters.postgres.checkpoints import CheckpointStore
from adapters.postgres.events import EventStore
from adapters.postgres.fact_purge import FactPurge
from adapters.postgres.fact_sources import FactSources
from adapters.postgres.facts import FactStore
from adapters.postgres.job_overview import JobOverview
from adapters.postgres.job_sweep import JobSweepStore
from adapters.postgres.jobs import JobStore
from adapters.postgres.messages import MessageStore, SessionStore
from adapters.postgres.pool import create_pool
from adapters.postgres.rollouts import RolloutStore
from adapters.postgres.runs import RunStore
from adapters.postgres.slots import SlotStore
from adapters.postgres.users import UserStore
from adapters.postgres.variants import VariantStore
from adapters.profiles import ProfileCatalog
from adapters.recall import Recall
from adapters.schedules import Schedules, policy_of
from adapters.settings import Settings, load
from adapters.stream import EventStream, open_redis
from adapters.temporal import connect
from adapters.tools.catalog import built_in
from api import openapi, problems
from api.body_limit import BodyLimit
from api.last_resort import LastResort
from api.routes import (
    asking,
    audit,
    automation,
    catalog,
    checkpoints,
    memory,
    meta,
    metrics,
    openai,
    runs,
    sessions,
    variants,
)
from api.state import Services, State

ROOT = "/api/v1"
PREFIX = f"{ROOT}/agent"


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application; without settings they are read from the environment.

    `app.state.hub` exists while it runs: `hub.drain()` ends all open streams in order.
    """
    settings = settings or load()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[State]:
        async with AsyncExitStack() as stack:
            yield {"services": await _services(settings, app, stack)}

    app = FastAPIOffline(  # /docs with scripts from here, not from a CDN
        title="Varve",
        version=version("varve"),
        summary="A durable agent runtime that speaks AG-UI",
        lifespan=lifespan,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url="/docs",
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    problems.install(app)
    app.add_middleware(LastResort)
    app.add_middleware(BodyLimit)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=settings.origins,
        allow_methods=["GET", "POST", "PATCH", "DELETE"],
        allow_headers=[
            *("authorization", "content-type", "last-event-id"),
            *("idempotency-key", "prefer", "x-varve-session"),
        ],
    )
    agent = APIRouter(prefix=PREFIX)
    for module in (checkpoints, asking, variants, runs, sessions, memory, catalog, audit, meta):
        agent.include_router(module.router)
    app.include_router(agent)
    app.include_router(automation.router, prefix=ROOT)
    app.include_router(metrics.router)
    app.include_router(openai.router)
    openapi.install(app)
    return app


async def _services(settings: Settings, app: FastAPI, stack: AsyncExitStack) -> Services:
    pool = await create_pool(settings.database_url, max_size=20)
    stack.push_async_callback(pool.close)
    redis = open_redis(settings.redis_url)
    stack.push_async_callback(redis.aclose)
    temporal = await connect(settings.temporal_address, settings.temporal_namespace)
    events = EventStore(pool)
    facts = FactStore(pool)
    recall = Recall(facts, await stack.enter_async_context(open_embedder(settings)))
    hub = app.state.hub = await stack.enter_async_context(LiveHub(redis, events).running())
    return Services(
        settings=settings,
        pool=pool,
        redis=redis,
        temporal=temporal,
        runs=RunStore(pool),
        events=events,
        checkpoints=CheckpointStore(pool),
        variants=VariantStore(pool),
        messages=MessageStore(pool),
        sessions=SessionStore(pool),
        audit=AuditStore(pool),
        users=UserStore(pool),
        rollouts=RolloutStore(pool),
        jobs=JobStore(pool),
        slots=SlotStore(pool),
        sweep=JobSweepStore(pool),
        overview=JobOverview(pool),
        schedules=Schedules(temporal, policy_of(settings)),
        profiles=ProfileCatalog(settings.profiles_dir),
        tools=built_in(facts, recall),
        facts=facts,
        sources=FactSources(pool),
        purge=FactPurge(pool),
        recall=recall,
        stream=EventStream(redis, settings.stream_cap, settings.stream_ttl_s),
        live=LiveEvents(hub, events),
    )
