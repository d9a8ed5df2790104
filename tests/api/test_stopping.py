"""Stop, at every moment of a run: what was done is kept, and nothing starts afterwards."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from adapters.tools.registry import Arguments, Tool, ToolContext, declare
from domain.tools import ToolKind
from tests.api.checks import check_stream
from tests.fixtures_api import Api, Person, run_input, serving_api
from tests.fixtures_standin import Standin
from tests.fixtures_worker import System, serving

pytestmark = pytest.mark.anyio


class Dig(Arguments):
    """A tool that takes its time."""


@dataclass
class Digging:
    started: int = 0
    finished: int = 0
    cancelled: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    def tool(self) -> Tool[Dig]:
        async def run(arguments: Dig, context: ToolContext) -> str:
            self.started += 1
            self.begun.set()
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            self.finished += 1
            return "dug"

        return declare("dig", "Dig.", Dig, run, kind=ToolKind.WRITE, idempotent=False)


@pytest.fixture
def digging() -> Digging:
    return Digging()


@pytest.fixture
async def dug(system: System, digging: Digging) -> AsyncGenerator[Api]:
    config = system.settings.model_copy(update={"run_queue": uuid4().hex})
    async with (
        serving(config, system.client, system.pool, [digging.tool()]),
        serving_api(config, system.pool) as api,
    ):
        yield api


@pytest.fixture
async def ada(dug: Api) -> Person:
    return await dug.person("ada")


async def state(person: Person, run_id: str) -> dict[str, Any]:
    return (await person.http.get(f"/runs/{run_id}")).json()


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await true():
            await asyncio.sleep(0.01)


async def stopped(person: Person, run_id: str) -> list[dict[str, Any]]:
    """Say stop, and read the whole stream."""
    answer = await person.http.post(f"/runs/{run_id}/interrupt", json={"reason": "Enough."})
    assert answer.status_code == 202
    frames = check_stream((await person.http.get(f"/runs/{run_id}/events")).text)
    run = await state(person, run_id)
    assert (run["status"], run["errorMessage"]) == ("interrupted", "Enough.")
    return frames


async def posted(person: Person, text: str, run_id: str) -> None:
    json_only = {"accept": "application/json"}
    body = run_input(text, run_id=run_id, thread_id="t", protocolVersion="1.0")
    assert (await person.http.post("/runs", json=body, headers=json_only)).status_code == 202


async def quiet_afterwards(system: System, ada: Person, run_id: str) -> None:
    """Nothing of the run goes on: no event, no message, no model call; the session is free."""
    count = "SELECT (SELECT count(*) FROM run_events) + (SELECT count(*) FROM messages)"
    before = await system.pool.fetchval(count)
    await asyncio.sleep(1.0)
    assert await system.pool.fetchval(count) == before
    await posted(ada, "[[standin: tokens=3]]", f"{run_id}-next")
    await until(lambda: _is(ada, f"{run_id}-next", "completed"))


async def _is(person: Person, run_id: str, status: str) -> bool:
    return (await state(person, run_id))["status"] == status


async def test_at_once(system: System, ada: Person) -> None:
    for number in range(5):
        await posted(ada, f"[[standin: id=now{number} tokens=400 delay_ms=20 flush]]", f"r{number}")
        frames = await stopped(ada, f"r{number}")
        assert frames[-1]["outcome"] == {"type": "cancelled"}
    await quiet_afterwards(system, ada, "r4")


async def test_before_the_first_token(system: System, ada: Person, standin: Standin) -> None:
    mark = uuid4().hex
    await posted(ada, f"[[standin: id={mark} first_delay_ms=8000 tokens=5]]", "r")
    await until(lambda: _upstream(standin, mark))
    frames = await stopped(ada, "r")
    assert [f for f in frames if f["type"] == "TEXT_MESSAGE_CONTENT"] == []
    await until(lambda: _aborted(standin, mark))
    await quiet_afterwards(system, ada, "r")


async def _upstream(standin: Standin, mark: str) -> bool:
    return bool((await standin.report(mark))["requests"])


async def _aborted(standin: Standin, mark: str) -> bool:
    return [r["outcome"] for r in (await standin.report(mark))["requests"]] == ["aborted"]


async def test_in_the_middle_of_the_text(system: System, ada: Person, standin: Standin) -> None:
    mark = uuid4().hex
    await posted(ada, f"[[standin: id={mark} tokens=2000 delay_ms=10 flush]]", "r")
    await until(lambda: _written(standin, mark, 20))
    frames = await stopped(ada, "r")
    said = "".join(f["delta"] for f in frames if f["type"] == "TEXT_MESSAGE_CONTENT")
    assert 0 < len(said.split()) < 2000
    row = await system.pool.fetchrow(
        "SELECT content, metadata ->> 'finish_reason' AS finish FROM messages "
        "WHERE role = 'assistant' ORDER BY seq DESC LIMIT 1"
    )
    assert row is not None
    assert (row["content"], row["finish"]) == (said, "interrupted")
    await until(lambda: _aborted(standin, mark))
    await quiet_afterwards(system, ada, "r")


async def _written(standin: Standin, mark: str, words: int) -> bool:
    return any(r["written"] >= words for r in (await standin.report(mark))["requests"])


async def test_in_the_middle_of_a_tool(system: System, ada: Person, digging: Digging) -> None:
    await posted(ada, "[[standin: call=dig args={} call=list_files args={}]]", "r")
    async with asyncio.timeout(20):
        await digging.begun.wait()
    frames = await stopped(ada, "r")
    results = {f["toolCallId"]: f["content"] for f in frames if f["type"] == "TOOL_CALL_RESULT"}
    calls = {f["toolCallId"]: f["toolCallName"] for f in frames if f["type"] == "TOOL_CALL_START"}
    assert results.keys() == calls.keys()
    [dig] = [call for call, name in calls.items() if name == "dig"]
    assert "interrupted before this call had a result" in results[dig]

    async def let_go() -> bool:
        return digging.cancelled == 1

    await until(let_go)
    await quiet_afterwards(system, ada, "r")
    assert (digging.started, digging.finished) == (1, 0)


async def test_while_a_person_is_waited_for(system: System, ada: Person) -> None:
    await posted(ada, '[[standin: call=ask_clarification args={"question":"Which?"}]]', "r")
    await until(lambda: _is(ada, "r", "waiting"))
    await ada.http.post("/runs/r/interrupt", json={"reason": "Enough."})
    await until(lambda: _is(ada, "r", "interrupted"))
    segment = f"seg_{(await state(ada, 'r'))['workflowId'].removeprefix('run/').replace('-', '')}_1"
    assert (await ada.http.get(f"/runs/{segment}")).status_code == 404
    frames = check_stream((await ada.http.get("/runs/r/events")).text)
    assert frames[-1]["outcome"]["type"] == "interrupt"
    assert (await ada.http.get("/checkpoints")).json()["items"] == []
    await quiet_afterwards(system, ada, "r")
