"""Everything a benchmark needs, started in a folder that is thrown away, on free ports.

All deployments that are compared run side by side, each on a task queue of its own, so that their
turns can alternate and all see the same machine. An idle one costs next to nothing.
"""

import json
import os
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from temporalio.client import Client

from adapters.postgres.pool import Pool, create_pool
from adapters.postgres.users import UserStore
from adapters.stream import EventStream, open_redis
from adapters.temporal import connect
from cli.stack.ledger import Ledger
from cli.stack.local import ANY, LocalStack
from cli.stack.program import ACTIVITIES, WORKFLOWS, Program, polls
from cli.stack.state import Endpoints, State
from cli.stack.supervisor import Supervisor
from domain.identity import UserRole
from domain.runs import Placement

FLOOR_QUEUE = "bench-floor"
RUN_QUEUE = "bench-lean"
_SERVERS = ("Temporal", "PostgreSQL", "Valkey")
_NAMESPACE = "default"
_REST = ("--serve", "model", "tools")  # what a second process takes on when queues are split


@dataclass(frozen=True, slots=True)
class Deployment:
    """A way to place the steps of a run. `pids`: its workers' processes."""

    name: str
    queue: str
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    endpoints: Endpoints
    client: Client
    pool: Pool
    stream: EventStream
    owner: UUID
    floor: Deployment  # the empty workflow's worker
    deployments: tuple[Deployment, ...]  # the one that `varve up` would start is the first
    servers: tuple[int, ...]  # pids of engine, database and stream
    folder: Path


@dataclass(frozen=True, slots=True)
class Ground:
    """A local stack in a folder that is thrown away. `env`: what its programs were given."""

    state: State
    endpoints: Endpoints
    env: dict[str, str]
    pool: Pool
    client: Client


@asynccontextmanager
async def grounded(say: Callable[[str], None], **given: str) -> AsyncGenerator[Ground]:
    """The stack of `varve up` with these variables; torn down at the end. Raises StackError."""
    async with AsyncExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="varve-bench-", ignore_cleanup_errors=True)
            )
        )
        state = State(folder)
        stack.enter_context(state.lock())
        env = {k: v for k, v in os.environ.items() if not k.startswith("VARVE_")}
        env |= {"VARVE_LOG_LEVEL": "warning", **given}
        local = LocalStack(state, env, ANY, say)
        stack.push_async_callback(local.stop)
        endpoints = await local.start()
        pool = await create_pool(endpoints.database_url, max_size=20)
        stack.push_async_callback(pool.close)
        client = await connect(endpoints.temporal_address, _NAMESPACE)
        yield Ground(state, endpoints, env, pool, client)


@asynccontextmanager
async def staged(say: Callable[[str], None]) -> AsyncGenerator[Stage]:
    """The stage, all parts ready; torn down at the end. Raises StackError."""
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(grounded(say, VARVE_RUN_QUEUE=RUN_QUEUE))
        state, endpoints, pool = ground.state, ground.endpoints, ground.pool
        pids = _pids(state)
        workers = Supervisor(Ledger(state.folder / "bench.json"), say)
        stack.push_async_callback(workers.stop)
        floor, others = await _workers(workers, state, endpoints, ground.env)
        redis = await stack.enter_async_context(open_redis(endpoints.redis_url))
        yield Stage(
            endpoints=endpoints,
            client=ground.client,
            pool=pool,
            stream=EventStream(redis, cap=20_000, ttl_s=3_600),
            owner=(await UserStore(pool).add_user("bench", UserRole.USER)).id,
            floor=floor,
            deployments=(Deployment("lean", RUN_QUEUE, (pids["worker"],)), *others),
            servers=tuple(pids[name] for name in _SERVERS),
            folder=state.folder,
        )


async def _workers(
    supervisor: Supervisor, state: State, endpoints: Endpoints, env: dict[str, str]
) -> tuple[Deployment, tuple[Deployment, ...]]:
    """The floor's worker and those of the placements that are compared with the ordinary one."""

    address = endpoints.temporal_address

    def worker(name: str, polled: str, arguments: tuple[str, ...] = (), **given: str) -> Program:
        what = ACTIVITIES if arguments == _REST else WORKFLOWS
        return Program(
            name,
            "workers.agent",
            state.log(name),
            check=polls(address, _NAMESPACE, polled, what),
            arguments=arguments,
            env={**_addresses(endpoints, state), **env, **given},
        )

    ordinary = worker(
        "bench ordinary",
        "bench-ordinary",
        VARVE_RUN_QUEUE="bench-ordinary",
        VARVE_PLACEMENT=Placement.ORDINARY,
    )
    queues = {
        "VARVE_RUN_QUEUE": "bench-split",
        "VARVE_MODEL_QUEUE": "bench-split-model",
        "VARVE_TOOL_QUEUE": "bench-split-tool",
    }
    split_runs = worker("bench split runs", "bench-split", ("--serve", "runs"), **queues)
    split_rest = worker("bench split rest", "bench-split-model", _REST, **queues)
    floor = Program(
        "bench floor",
        "cli.bench.floor",
        state.log("bench-floor"),
        check=polls(address, _NAMESPACE, FLOOR_QUEUE),
        arguments=(address, _NAMESPACE, FLOOR_QUEUE),
    )
    await supervisor.start(ordinary, split_runs, split_rest, floor)
    return _placed("floor", FLOOR_QUEUE, floor), (
        _placed("ordinary", "bench-ordinary", ordinary),
        _placed("split", "bench-split", split_runs, split_rest),
    )


def _placed(name: str, queue: str, *programs: Program) -> Deployment:
    return Deployment(name, queue, tuple(p.child.pid or 0 for p in programs))


def _addresses(endpoints: Endpoints, state: State) -> dict[str, str]:
    return {
        "VARVE_DATABASE_URL": endpoints.database_url,
        "VARVE_REDIS_URL": endpoints.redis_url,
        "VARVE_TEMPORAL_ADDRESS": endpoints.temporal_address,
        "VARVE_MODEL_BASE_URL": endpoints.model_base_url,
        "VARVE_WORKSPACE_DIR": str(state.workspaces),
    }


def _pids(state: State) -> dict[str, int]:
    """By component, from the stack's ledger."""
    return {entry["component"]: entry["pid"] for entry in json.loads(state.processes.read_text())}
