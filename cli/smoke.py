"""`varve up --smoke`: one chat turn with a tool, looked at from every side; then memory."""

import asyncio
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

from temporalio.client import WorkflowExecutionStatus

from adapters.temporal import connect
from cli.chat import Answer, gather
from cli.client import AgentClient, Frame
from cli.finding import Finding
from cli.smoke_memory import look_at_memory
from cli.stack.state import Endpoints
from domain.ids import run_key, run_workflow_id

QUESTION = "Remember that my favourite rock is slate."
TOOL = "memory_write"
CLOSED_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One run as a client saw it."""

    thread_id: str
    frames: list[Frame]
    answer: Answer


async def examine(endpoints: Endpoints) -> list[Finding]:
    """Run the turn and look. Raises ApiError or Unreachable when it can't be run at all."""
    async with AgentClient(endpoints.api_url, endpoints.demo_api_key) as client:
        thread, run_id = f"smoke-{uuid4().hex[:12]}", f"run-{uuid4().hex[:16]}"
        turn = await _gather(thread, run_id, client.run(thread, QUESTION, run_id=run_id))
        replay = await _gather(thread, run_id, client.replay(run_id))
        history = await client.history(thread)
        run = await client.get_run(run_id)
        me = await client.ask("GET", "/me")
    return [
        *_stream(turn),
        _same(turn, replay),
        _stored(turn, history),
        Finding("run", run.get("status") == "completed", f"status {run.get('status')}"),
        await _workflow(endpoints, UUID(me["userId"]), run_id),
        *await look_at_memory(endpoints),
    ]


async def _gather(thread: str, run_id: str, frames: AsyncGenerator[Frame]) -> Turn:
    turn = Turn(thread, [], Answer(run_id))
    async for frame in frames:
        turn.frames.append(frame)
        gather(turn.answer, frame)
    return turn


def _stream(turn: Turn) -> list[Finding]:
    types = [frame.type for frame in turn.frames]
    ids = [frame.id for frame in turn.frames]
    known = [number for number in ids if number is not None]
    increasing = known == ids and all(a < b for a, b in pairwise(known))
    ends = f"{types[0]} … {types[-1]}"
    answer = turn.answer
    used = [tool for tool in answer.tools if tool["name"] == TOOL and tool.get("result")]
    return [
        Finding("stream", ends == "RUN_STARTED … RUN_FINISHED", answer.error or ends),
        Finding("event ids", increasing, f"{len(ids)} events, {ids[0]} … {ids[-1]}"),
        Finding("tool call", bool(used), used[0]["result"] if used else f"no {TOOL} with a result"),
        Finding("answer", bool(answer.text) and answer.error is None, answer.text or "none"),
    ]


def _same(turn: Turn, replay: Turn) -> Finding:
    """The replay of an ended run tells the same story, however its text is cut into deltas."""
    same = replay.answer == turn.answer and replay.frames[-1] == turn.frames[-1]
    return Finding("replay", same, f"{len(replay.frames)} events")


def _stored(turn: Turn, history: dict[str, Any]) -> Finding:
    messages: list[dict[str, Any]] = history.get("messages", [])
    roles = [message["role"] for message in messages]
    kept = messages[-1].get("content") if messages else None
    ok = roles == ["user", "assistant", "tool", "assistant"] and kept == turn.answer.text
    return Finding("stored messages", ok, ", ".join(roles) or "none")


async def _workflow(endpoints: Endpoints, owner: UUID, run_id: str) -> Finding:
    """The run's workflow has completed, in few events."""
    namespace = os.environ.get("VARVE_TEMPORAL_NAMESPACE", "default")
    client = await connect(endpoints.temporal_address, namespace)
    handle = client.get_workflow_handle(run_workflow_id(run_key(owner, run_id)))
    described = await handle.describe()
    until = asyncio.get_running_loop().time() + CLOSED_WITHIN_S
    while described.close_time is None and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(0.1)
        described = await handle.describe()
    status = described.status.name.lower() if described.status else "unknown"
    detail = f"{status}, {described.history_length} history events"
    return Finding("workflow", described.status is WorkflowExecutionStatus.COMPLETED, detail)
