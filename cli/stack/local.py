"""The whole of Varve on this machine: which parts, in what order, wired to each other how."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from temporalio.client import Client
from temporalio.service import RPCError

from adapters.settings import Settings, load
from adapters.temporal import connect, ensure_search_attributes
from cli.job_schedules import ensure_schedules
from cli.stack.demo import ensure_demo
from cli.stack.errors import StackError
from cli.stack.ledger import Ledger
from cli.stack.migrate import migrate
from cli.stack.ports import HOST, free_port, is_free
from cli.stack.postgres import Postgres
from cli.stack.program import Program, answers, polls
from cli.stack.state import Endpoints, State
from cli.stack.supervisor import Part, Supervisor
from cli.stack.temporal import Temporal
from cli.stack.valkey import Valkey

API = "/api/v1/agent"


@dataclass(frozen=True, slots=True)
class Ports:
    """Wanted ports; 0 is any free one. One that is taken is replaced by a free one."""

    api: int = 8080
    temporal: int = 7233
    temporal_ui: int = 8233
    postgres: int = 54329
    valkey: int = 63799
    standin: int = 8089

    def settled(self, say: Callable[[str], None]) -> "Ports":
        """The same with every 0 and every taken port replaced; says which were taken."""
        chosen: dict[str, int] = {}
        for each in fields(self):
            wanted: int = getattr(self, each.name)
            port = wanted if wanted and is_free(wanted) else free_port()
            while port in chosen.values():
                port = free_port()
            chosen[each.name] = port
            if wanted not in (0, port):
                say(f"Port {wanted} ({each.name}) is taken; using {port}")
        return Ports(**chosen)


ANY = Ports(0, 0, 0, 0, 0, 0)


def asked(env: Mapping[str, str]) -> Settings:
    """What the environment asks for, before any server has an address. Raises SettingsError."""
    return load({"VARVE_DATABASE_URL": "unset", "VARVE_REDIS_URL": "unset", **env})


class LocalStack:
    """Servers, migrations, stand-in model, worker and API; what the environment names is used
    as it is instead of an embedded one (`VARVE_DATABASE_URL`, `…REDIS_URL`, `…TEMPORAL_ADDRESS`,
    `…MODEL_BASE_URL`)."""

    def __init__(
        self, state: State, env: Mapping[str, str], ports: Ports, say: Callable[[str], None]
    ) -> None:
        self._state = state
        self._env = dict(env)
        self._ports = ports
        self._say = say
        self._ledger = Ledger(state.processes)
        self._supervisor = Supervisor(self._ledger, say)

    async def start(self) -> Endpoints:
        """Start all; returns once a chat turn would work. Raises StackError, SettingsError."""
        self._state.prepare()
        for entry in await self._ledger.clear():
            self._say(f"Stopped {entry.component} ({entry.pid}), left by a stack that was killed")
        self._ports = self._ports.settled(self._say)
        await self._start_servers()
        settings = self._settings()
        await migrate(settings.database_url)
        client = await _prepare_temporal(settings)
        demo = await ensure_demo(settings.database_url, self._state)
        await ensure_schedules(settings, client, demo.owner_id)
        await self._supervisor.start(self._worker(settings), self._api(settings))
        endpoints = self._endpoints(settings, demo.key)
        self._state.keep_endpoints(endpoints)
        return endpoints

    async def stop(self) -> None:
        """Stop all in reverse order; the data stays."""
        self._state.forget_endpoints()
        await self._supervisor.stop()

    async def _start_servers(self) -> None:
        embedded = {
            "VARVE_DATABASE_URL": self._postgres(),
            "VARVE_REDIS_URL": self._valkey(),
            "VARVE_TEMPORAL_ADDRESS": self._temporal(),
            "VARVE_MODEL_BASE_URL": self._standin(),
        }
        wanted = {name: each for name, each in embedded.items() if not self._env.get(name)}
        await self._supervisor.start(*(part for part, _ in wanted.values()))
        self._env |= {name: address for name, (_, address) in wanted.items()}
        if "VARVE_TEMPORAL_ADDRESS" in wanted:
            ui = f"http://{HOST}:{self._ports.temporal_ui}"
            self._env.setdefault("VARVE_TEMPORAL_UI_URL", ui)

    def _postgres(self) -> tuple[Part, str]:
        server = Postgres(
            self._state.data / "postgres",
            self._state.log("postgres"),
            port=self._ports.postgres,
            password=self._state.passwords().postgres,
        )
        return server, server.url_of("varve")

    def _valkey(self) -> tuple[Part, str]:
        server = Valkey(
            self._state.data / "valkey",
            self._state.log("valkey"),
            port=self._ports.valkey,
            password=self._state.passwords().valkey,
        )
        return server, server.url

    def _temporal(self) -> tuple[Part, str]:
        server = Temporal(
            self._state.data / "temporal",
            self._state.log("temporal"),
            port=self._ports.temporal,
            ui_port=self._ports.temporal_ui,
            namespace=self._env.get("VARVE_TEMPORAL_NAMESPACE", "default"),
        )
        return server, server.address

    def _standin(self) -> tuple[Part, str]:
        root = f"http://{HOST}:{self._ports.standin}"
        program = Program(
            "stand-in model",
            "standin",
            self._state.log("standin"),
            check=answers(f"{root}/health"),
            arguments=("--host", HOST, "--port", str(self._ports.standin)),
        )
        return program, f"{root}/v1"

    def _settings(self) -> Settings:
        self._env |= {"VARVE_API_HOST": HOST, "VARVE_API_PORT": str(self._ports.api)}
        self._env.setdefault("VARVE_WORKSPACE_DIR", str(self._state.workspaces))
        return load(self._env)

    def _worker(self, settings: Settings) -> Program:
        return Program(
            "worker",
            "workers.agent",
            self._state.log("worker"),
            check=polls(settings.temporal_address, settings.temporal_namespace, settings.run_queue),
            env=self._env,
        )

    def _api(self, settings: Settings) -> Program:
        return Program(
            "API",
            "api",
            self._state.log("api"),
            check=answers(f"http://{HOST}:{settings.api_port}{API}/health/ready"),
            env=self._env,
        )

    def _endpoints(self, settings: Settings, key: str) -> Endpoints:
        return Endpoints(
            api_url=f"http://{HOST}:{settings.api_port}",
            console_url=None,
            temporal_address=settings.temporal_address,
            temporal_ui_url=settings.temporal_ui_url,
            database_url=settings.database_url,
            redis_url=settings.redis_url,
            model_base_url=settings.model_base_url or "",
            demo_api_key=key,
        )


async def _prepare_temporal(settings: Settings) -> Client:
    try:
        client = await connect(settings.temporal_address, settings.temporal_namespace)
        await ensure_search_attributes(client)
        return client
    except (RuntimeError, RPCError) as error:  # what temporalio raises
        raise StackError(
            "Temporal",
            f"{settings.temporal_address} or its namespace {settings.temporal_namespace!r} "
            f"does not answer: {error}",
            remedy="check VARVE_TEMPORAL_ADDRESS and VARVE_TEMPORAL_NAMESPACE",
        ) from error


async def either(work: "asyncio.Task[Endpoints]", stop: asyncio.Event) -> Endpoints | None:
    """The result of `work`, or None when `stop` is set first; `work` is cancelled then."""
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return None
    finally:
        stopped.cancel()
