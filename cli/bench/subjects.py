"""What is measured: the empty workflow, the bare loop, and a run of ours in each deployment."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass
from uuid import UUID, uuid4

from temporalio.client import Client

from activities.start import start_run
from adapters.llm import body
from adapters.postgres.facts import FactStore
from adapters.postgres.runs import RunStore
from adapters.prompts import PROMPTS
from adapters.tools.catalog import built_in
from cli.bench.bare import Order, Played, Setting
from cli.bench.batches import Batch, metered
from cli.bench.empty import EmptyWorkflow
from cli.bench.sessions import past, seeded
from cli.bench.stage import Deployment, Stage
from domain.ids import run_workflow_id
from domain.messages import Message, ModelRequest, Role
from domain.runs import NewRun, RunRequest

SEARCHES = ('memory_search args={"query":"layers"}', 'memory_search args={"query":"slate"}')
"""Two tools that only read the database."""
FILES = ('memory_search args={"query":"layers"}', "list_files args={}")
"""The second of these is an activity of its own."""
_RESULTS = {"memory_search": '{"items": []}', "list_files": "[no files]"}


def plain(tokens: int) -> str:
    """A message that the stand-in answers with so many tokens and nothing else."""
    return f"[[standin: tokens={tokens}]]"


def tooled(tokens: int, calls: tuple[str, ...] = SEARCHES) -> str:
    """A message that it answers with tokens and these calls, then with tokens again."""
    return f"[[standin: tokens={tokens} {' '.join(f'call={call}' for call in calls)}]]"


@dataclass(frozen=True, slots=True)
class History:
    """What one run left in the engine."""

    events: int
    size: int  # bytes


class Floor:
    """The empty workflow."""

    name = "empty workflow"

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    async def batch(self, runs: int, concurrency: int) -> Batch:
        stage = self._stage
        return await metered(self._play, runs, concurrency, stage.floor.pids, stage.servers)

    async def history(self) -> History:
        return await _history(self._stage.client, await self._run())

    async def _play(self) -> float:
        began = time.perf_counter()
        await self._run()
        return time.perf_counter() - began

    async def _run(self) -> str:
        id = f"floor/{uuid4().hex}"
        queue = self._stage.floor.queue
        await self._stage.client.execute_workflow(EmptyWorkflow.run, id=id, task_queue=queue)
        return id


class Ours:
    """A run from its acceptance to its workflow's result, each in a session of its own that has
    seen so many `exchanges`."""

    def __init__(
        self, name: str, stage: Stage, deployment: Deployment, question: str, exchanges: int
    ) -> None:
        self.name = name
        self._stage = stage
        self._at = deployment
        self._question = question
        self._exchanges = exchanges
        self._runs = RunStore(stage.pool)

    async def batch(self, runs: int, concurrency: int) -> Batch:
        stage = self._stage
        threads = iter([await seeded(stage, self._exchanges) for _ in range(runs)])

        async def play() -> float:
            thread = next(threads)
            began = time.perf_counter()
            await self._run(thread)
            return time.perf_counter() - began

        return await metered(play, runs, concurrency, self._at.pids, stage.servers)

    async def history(self) -> History:
        key = await self._run(await seeded(self._stage, self._exchanges))
        return await _history(self._stage.client, run_workflow_id(key))

    async def _run(self, thread: str) -> UUID:
        """As the API does it. Raises WorkflowFailureError if the run fails."""
        stage, id = self._stage, uuid4().hex
        message = Message(f"m-{id}", Role.USER, self._question)
        new = NewRun(stage.owner, thread, f"run-{id}", RunRequest(), (message,))
        accepted = await self._runs.accept(new)
        assert accepted.started is not None
        await stage.stream.publish(accepted.run.key, [accepted.started])
        await start_run(stage.client, accepted.run, self._at.queue)
        handle = stage.client.get_workflow_handle(run_workflow_id(accepted.run.key))
        await handle.result()
        return accepted.run.key


class Bare:
    """The undurable loop, in a process of its own, told what to play line by line."""

    name = "bare loop, typed SDK"

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def batch(self, runs: int, concurrency: int) -> Batch:
        await self.tell(asdict(Order(runs, concurrency)))
        assert self._process.stdout is not None
        answer = await self._process.stdout.readline()
        played = Played(**json.loads(answer))
        return Batch(tuple(played.walls), played.elapsed, played.cpu, 0.0)

    async def tell(self, order: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        await self._process.stdin.drain()


@contextlib.asynccontextmanager
async def bare(stage: Stage, question: str, exchanges: int) -> AsyncGenerator[Bare]:
    """The bare loop's process, given the prompt, window and tools that a run of ours is given."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli.bench.bare", stdin=pipe, stdout=pipe, limit=2**24
    )
    loop = Bare(process)
    try:
        await loop.tell(asdict(_setting(stage, question, exchanges)))
        yield loop
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def _setting(stage: Stage, question: str, exchanges: int) -> Setting:
    specs = tuple(built_in(FactStore(stage.pool)).specs.values())
    window = (*past(exchanges), Message("question", Role.USER, question))
    request = ModelRequest("any", PROMPTS["worker-a"].text, window, specs)
    opening = body.build(request, body.Names.of(specs), "plain")
    return Setting(stage.endpoints.model_base_url, opening, _RESULTS)


async def _history(client: Client, workflow_id: str) -> History:
    described = await client.get_workflow_handle(workflow_id).describe()
    size = described.raw_description.workflow_execution_info.history_size_bytes
    return History(described.history_length, size)
