"""The terminal's API client, against a server that drops connections when told to."""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from cli.client import BASE, AgentClient, ApiError, Frame, Unreachable
from cli.stack.ports import free_port
from tests.cli.serving import serving

EVENTS: list[dict[str, Any]] = [
    {"type": "RUN_STARTED"},
    {"type": "TEXT_MESSAGE_CONTENT", "delta": "slate, "},
    {"type": "TEXT_MESSAGE_CONTENT", "delta": "年轮"},
    {"type": "RUN_FINISHED"},
]


@dataclass
class Server:
    """Serves EVENTS with ids 10, 20, …; `cuts` says after how many frames each stream breaks."""

    cuts: list[int] = field(default_factory=list[int])
    asked: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    refuse: tuple[int, dict[str, Any]] | None = None
    refusals: int = 1_000  # how often
    closing: bool = False  # a cut stream ends with a word instead of half a frame

    async def post(self, request: Request) -> Response:
        self.asked.append(("POST", None))
        if self.refuse and self.refusals > 0:
            self.refusals -= 1
            return JSONResponse(self.refuse[1], self.refuse[0])
        return self._stream(0)

    async def events(self, request: Request) -> Response:
        last = request.headers.get("last-event-id")
        self.asked.append(("GET", last))
        return self._stream(int(last or 0) // 10)

    def _stream(self, start: int) -> Response:
        cut = self.cuts.pop(0) if self.cuts else len(EVENTS)

        async def frames() -> AsyncGenerator[str]:
            yield ": hello\n\n"
            for index, event in enumerate(EVENTS[start : start + cut], start + 1):
                yield f"id: {index * 10}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
            if start + cut < len(EVENTS) and self.closing:
                yield 'data: {"type": "RUN_ERROR", "code": "stream_closed", "message": "Back!"}\n\n'
            elif start + cut < len(EVENTS):
                yield "id: 99\ndata: {half"  # a frame that never ends

        return StreamingResponse(frames(), media_type="text/event-stream")


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def client(server: Server) -> AsyncGenerator[AgentClient]:
    routes = [
        Route(f"{BASE}/runs", server.post, methods=["POST"]),
        Route(BASE + "/runs/{run_id}/events", server.events),
    ]
    async with serving(Starlette(routes=routes)) as url, AgentClient(url, "vk_1") as client:
        yield client


async def collect(frames: AsyncGenerator[Frame]) -> list[Frame]:
    return [frame async for frame in frames]


async def test_frames_come_whole_and_once(client: AgentClient) -> None:
    frames = await collect(client.run("t", "hi", run_id="r"))
    assert [frame.event for frame in frames] == EVENTS
    assert [frame.id for frame in frames] == [10, 20, 30, 40]


@pytest.mark.parametrize("cuts", [[1], [2], [3], [1, 1], [1, 1, 1]])
async def test_a_dropped_connection_is_resumed_where_it_was(
    cuts: list[int], server: Server, client: AgentClient
) -> None:
    server.cuts = list(cuts)
    frames = await collect(client.run("t", "hi", run_id="r"))
    assert [frame.event for frame in frames] == EVENTS
    assert server.asked[1] == ("GET", str(cuts[0] * 10))


async def test_a_post_that_brought_nothing_is_repeated(server: Server, client: AgentClient) -> None:
    server.cuts = [0]
    assert [f.event for f in await collect(client.run("t", "hi", run_id="r"))] == EVENTS
    assert server.asked == [("POST", None), ("POST", None)]


async def test_a_server_that_closes_the_stream_is_asked_again(
    server: Server, client: AgentClient
) -> None:
    server.cuts, server.closing = [2], True
    assert [f.event for f in await collect(client.run("t", "hi", run_id="r"))] == EVENTS
    assert server.asked[1] == ("GET", "20")


async def test_a_server_that_is_not_ready_is_asked_again(
    server: Server, client: AgentClient
) -> None:
    server.refuse, server.refusals = (503, {"title": "Unavailable", "detail": "Wait."}), 1
    assert [f.event for f in await collect(client.run("t", "hi", run_id="r"))] == EVENTS


async def test_a_refusal_is_told_in_the_servers_words(server: Server, client: AgentClient) -> None:
    errors = [{"field": "runId", "message": "must not be empty"}]
    server.refuse = (422, {"title": "Invalid", "detail": "No.", "errors": errors})
    with pytest.raises(ApiError, match=r"No\.; runId: must not be empty \(HTTP 422\)") as caught:
        await collect(client.run("t", "hi", run_id="r"))
    assert caught.value.status == 422


async def test_nobody_listening_is_said_to_be_so() -> None:
    async with AgentClient(f"http://127.0.0.1:{free_port()}", "vk_1") as client:
        with pytest.raises(Unreachable, match="does not answer"):
            await client.history("t")
