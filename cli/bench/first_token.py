"""Time to the first token: a direct call, and the same through POST /runs and its event stream."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import httpx2

from cli.bench.batches import Play
from cli.bench.stage import Stage
from cli.client import AgentClient

DELAY_MS = 300
_TOKENS, _PACE_MS = 200, 10  # a hundred tokens per second
STREAM_S = (DELAY_MS + _TOKENS * _PACE_MS) / 1000
"""How long the model takes for an answer."""
_QUESTION = f"[[standin: first_delay_ms={DELAY_MS} tokens={_TOKENS} delay_ms={_PACE_MS}]]"


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Both ways; each plays one call to its end and returns the seconds to the first text."""

    direct: Play
    ours: Play


@asynccontextmanager
async def ready(stage: Stage) -> AsyncGenerator[FirstToken]:
    """The clients of both ways, connected once as an app would."""
    limits = httpx2.Limits(max_connections=100, max_keepalive_connections=100)
    async with (
        httpx2.AsyncClient(limits=limits, timeout=30) as http,
        AgentClient(stage.endpoints.api_url, stage.endpoints.demo_api_key) as client,
    ):
        yield FirstToken(lambda: _direct(http, stage), lambda: _ours(client))


async def _direct(http: httpx2.AsyncClient, stage: Stage) -> float:
    """The leanest client there is, so that the comparison is a hard one."""
    message = {"role": "user", "content": _QUESTION}
    body = {"model": "any", "stream": True, "messages": [message]}
    url = f"{stage.endpoints.model_base_url}/chat/completions"
    began, first = time.perf_counter(), None
    async with http.stream("POST", url, json=body) as response:
        async for line in response.aiter_lines():
            if first is None and '"content":"' in line.replace('"content":""', ""):
                first = time.perf_counter() - began
    assert first is not None
    return first


async def _ours(client: AgentClient) -> float:
    began, first = time.perf_counter(), None
    id = uuid4().hex
    async for frame in client.run(f"thread-{id}", _QUESTION, run_id=f"run-{id}"):
        if first is None and frame.type == "TEXT_MESSAGE_CONTENT":
            first = time.perf_counter() - began
    assert first is not None
    return first
