"""A client of our API for the terminal: AG-UI frames over SSE, resumed when a connection drops."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast
from uuid import uuid4

import httpx2

BASE = "/api/v1/agent"
ENDS = ("RUN_FINISHED", "RUN_ERROR")
CLOSED = "stream_closed"  # code of a RUN_ERROR that ends the connection, not the run
SILENCE_S = 45.0  # the server sends a comment every 15 s
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)


class ApiError(Exception):
    """The API refused, in its own words; `status` is the HTTP status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class Unreachable(Exception):
    """The API does not answer, or stopped answering and did not come back."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One AG-UI event with its SSE id."""

    id: int | None
    event: dict[str, Any]

    @property
    def type(self) -> str:
        return str(self.event.get("type", ""))


class AgentClient:
    """Use as a context manager. `api_url` without a path, `key` an API key."""

    def __init__(self, api_url: str, key: str) -> None:
        self._http = httpx2.AsyncClient(
            base_url=api_url.rstrip("/") + BASE,
            headers={"authorization": f"Bearer {key}"},
            timeout=httpx2.Timeout(10.0, read=SILENCE_S),
        )

    async def __aenter__(self) -> "AgentClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def run(
        self,
        thread_id: str,
        text: str,
        *,
        run_id: str,
        profile: str | None = None,
        message_id: str | None = None,
    ) -> AsyncGenerator[Frame]:
        """Post a message and yield every frame once, over as many connections as it takes.

        Called again with the same ids, `message_id` too, it attaches to the run. Raises ApiError
        when the request is refused, Unreachable when the API stays away.
        """
        message = {"id": message_id or f"user_{uuid4().hex}", "role": "user", "content": text}
        body = _run_input(thread_id, message, run_id, profile)
        # The same body again attaches to the run: a post whose answer was lost may be repeated.
        post = self._http.build_request("POST", "/runs", json=body)
        async for frame in self._follow(run_id, post):
            yield frame

    async def resume(
        self, thread_id: str, entries: Sequence[Mapping[str, Any]], *, run_id: str
    ) -> AsyncGenerator[Frame]:
        """Answer the questions that a run ended with, and yield what it goes on with. Raises as
        `run` does."""
        body = {**_run_input(thread_id, {}, run_id, None), "messages": [], "resume": list(entries)}
        post = self._http.build_request("POST", "/runs", json=body)
        async for frame in self._follow(run_id, post):
            yield frame

    async def replay(self, run_id: str) -> AsyncGenerator[Frame]:
        """Every frame of a run from its start, to its end. Raises as `run` does."""
        request = self._http.build_request("GET", f"/runs/{run_id}/events")
        async for frame in self._follow(run_id, request):
            yield frame

    async def interrupt(self, run_id: str) -> None:
        """Ask a run to stop; harmless when it has ended. Raises ApiError."""
        await self.ask("POST", f"/runs/{run_id}/interrupt")

    async def history(self, thread_id: str) -> dict[str, Any]:
        """What the server has of a session. Raises ApiError."""
        return await self.ask("GET", f"/sessions/{thread_id}/history")

    async def get_run(self, run_id: str) -> dict[str, Any]:
        """Raises ApiError."""
        return await self.ask("GET", f"/runs/{run_id}")

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """One request, and the object it is answered with. Raises ApiError and Unreachable."""
        try:
            response = await self._http.request(method, path, params=query, json=body)
        except httpx2.TransportError as error:
            raise Unreachable(f"The API at {self._http.base_url} does not answer.") from error
        await raise_for(response)
        return response.json() if response.content else {}

    async def _follow(self, run_id: str, request: httpx2.Request) -> AsyncGenerator[Frame]:
        pauses = iter(PAUSES_S)
        while True:
            try:
                async for frame in self._stream(request):
                    if frame.event.get("code") == CLOSED:
                        break  # the server restarts and asks us to come back
                    yield frame
                    if frame.type in ENDS:
                        return
                    if frame.id is not None:
                        request = self._resumption(run_id, frame.id)
                    pauses = iter(PAUSES_S)
                reason = "the stream ended early"
            except httpx2.TransportError as error:
                reason = str(error) or type(error).__name__
            except ApiError as error:
                if error.status != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                reason = str(error)
            pause = next(pauses, None)
            if pause is None:
                raise Unreachable(f"The API at {self._http.base_url} does not answer: {reason}")
            await asyncio.sleep(pause)

    def _resumption(self, run_id: str, last: int) -> httpx2.Request:
        headers = {"last-event-id": str(last)}
        return self._http.build_request("GET", f"/runs/{run_id}/events", headers=headers)

    async def _stream(self, request: httpx2.Request) -> AsyncGenerator[Frame]:
        response = await self._http.send(request, stream=True)
        try:
            await raise_for(response)
            async for frame in frames(response):
                yield frame
        finally:
            await response.aclose()


async def frames(response: httpx2.Response) -> AsyncGenerator[Frame]:
    """The frames of an event stream. Comments and unknown fields are passed over."""
    event_id: int | None = None
    data: list[str] = []
    async for line in response.aiter_lines():
        name, _, value = line.partition(":")
        if not line and data:
            yield Frame(event_id, json.loads("\n".join(data)))
            data = []
        elif name == "data":
            data.append(value.removeprefix(" "))
        elif name == "id":
            event_id = int(value)


def _run_input(
    thread_id: str, message: Mapping[str, str], run_id: str, profile: str | None
) -> dict[str, Any]:
    return {
        "threadId": thread_id,
        "runId": run_id,
        "protocolVersion": "1.0",
        "state": {},
        "messages": [message],
        "tools": [],
        "context": [],
        "forwardedProps": {"varve": {"profile": profile}} if profile else {},
    }


async def raise_for(response: httpx2.Response) -> None:
    """Raises ApiError for a refusal, in the words of its problem document."""
    if response.is_success:
        return
    await response.aread()
    raise ApiError(response.status_code, f"{_detail(response)} (HTTP {response.status_code})")


def _detail(response: httpx2.Response) -> str:
    """What a problem document says, with the fields it complains of."""
    try:
        problem = cast("dict[str, Any]", response.json())
        detail = str(problem.get("detail") or problem["title"])
        errors = [f"{error['field']}: {error['message']}" for error in problem.get("errors", [])]
        return "; ".join([detail, *(error for error in errors if error not in detail)])
    except (ValueError, KeyError, TypeError, AttributeError):
        return response.reason_phrase
