"""A client as apps have it: reads a run over as many connections as it takes, shows a conversation.

It keeps every event's bytes, so that two readers can be compared to the byte.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import uuid4

import httpx2

from tests.e2e.stack import PATIENCE_S, Tally, until
from tests.fixtures_api import run_input

ENDS = ("RUN_FINISHED", "RUN_ERROR")
CLOSED = "stream_closed"  # the server's word for: come back


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event: its id and its bytes, both lines."""

    id: int | None
    raw: bytes

    @property
    def frame(self) -> dict[str, Any]:
        return json.loads(self.raw.split(b"data: ", 1)[1])

    @property
    def ends(self) -> bool:
        frame = self.frame
        return frame["type"] in ENDS and frame.get("code") != CLOSED


@dataclass(slots=True)
class Reader:
    """One reader of one run. `take`: leave after so many events and come back, again and again."""

    client: "Client"
    run_id: str
    body: dict[str, Any] | None = None  # what it posts; None: it only follows
    take: int | None = None
    events: list[Event] = field(default_factory=list[Event])
    connections: int = 0
    follower: asyncio.Task[None] | None = None

    @property
    def last_id(self) -> int | None:
        return next((e.id for e in reversed(self.events) if e.id is not None), None)

    @property
    def over(self) -> bool:
        return bool(self.events) and self.events[-1].ends

    @property
    def frames(self) -> list[dict[str, Any]]:
        return [event.frame for event in self.events if event.frame.get("code") != CLOSED]

    @property
    def text(self) -> str:
        """Of the message that is being said, or was said last."""
        said = [m for m in shown(self.frames) if m["role"] == "assistant"]
        return said[-1].get("content", "") if said else ""

    def start(self) -> "Reader":
        """Follow the run beside the test."""
        self.follower = asyncio.create_task(self.follow())
        return self

    async def done(self) -> "Reader":
        assert self.follower is not None, "start it first"
        async with asyncio.timeout(PATIENCE_S):
            await self.follower
        return self

    async def leave(self) -> None:
        """Drop the connection and stay away until `start` is called again."""
        assert self.follower is not None, "start it first"
        self.follower.cancel()
        await asyncio.gather(self.follower, return_exceptions=True)

    async def has(self, events: int, what: str = "") -> None:
        """Wait until it holds this many events."""
        await self.sees(lambda reader: len(reader.events) >= events, what or f"{events} events")

    async def says(self, words: int) -> None:
        """Wait until it shows a message with this many words."""
        await self.sees(lambda reader: len(reader.text.split()) >= words, f"{words} words")

    async def sees(self, true: Callable[["Reader"], bool], what: str) -> None:
        async def now() -> bool:
            if self.follower is not None and self.follower.done():
                self.follower.result()
            return true(self)

        await until(now, f"the reader sees {what}")

    async def follow(self) -> None:
        """To the end, reconnecting with Last-Event-ID whenever the connection is gone."""
        while not self.over:
            held = len(self.events)
            with suppress(httpx2.TransportError):
                await self._connect()
            if len(self.events) == held:
                await asyncio.sleep(0.2)

    async def _connect(self) -> None:
        self.connections += 1
        taken = 0
        async with self._request() as response:
            if response.status_code in (404, 503):
                return
            assert response.status_code == 200, (response.status_code, await response.aread())
            async for event in events(response):
                self.events.append(event)
                taken += 1
                if event.frame.get("code") == CLOSED or event.ends or taken == self.take:
                    return

    def _request(self) -> Any:
        http = self.client.http
        if self.body is not None and not self.events:
            return http.stream("POST", "/runs", json=self.body)
        headers = {} if self.last_id is None else {"last-event-id": str(self.last_id)}
        return http.stream("GET", f"/runs/{self.run_id}/events", headers=headers)


async def events(response: httpx2.Response) -> AsyncGenerator[Event]:
    """Events as they come; comments are passed over, half an event is none."""
    rest = b""
    async for piece in response.aiter_raw():
        *blocks, rest = (rest + piece).split(b"\n\n")
        for block in blocks:
            if block.startswith(b":"):
                continue
            first = block.split(b"\n", 1)[0]
            id = int(first.removeprefix(b"id: ")) if first.startswith(b"id: ") else None
            yield Event(id, block)


class Client:
    """An API key and a connection pool."""

    def __init__(self, api_url: str, key: str, tally: Tally) -> None:
        self.tally = tally
        self.http = httpx2.AsyncClient(
            base_url=api_url,
            headers={"authorization": f"Bearer {key}"},
            timeout=httpx2.Timeout(30.0, read=PATIENCE_S),
            limits=httpx2.Limits(max_connections=1_000, max_keepalive_connections=0),
        )
        self._readers: list[Reader] = []

    def post(self, text: str, *, thread_id: str | None = None, **members: Any) -> Reader:
        """Say this in a session (a new one if none is named) and follow the answer."""
        body = run_input(text, thread_id=thread_id or f"thread-{uuid4().hex}", **members)
        self.tally.runs += 1
        return self._reader(Reader(self, body["runId"], body)).start()

    def follow(self, run: Reader, *, take: int | None = None) -> Reader:
        """One more reader of a run, from its beginning."""
        return self._reader(Reader(self, run.run_id, take=take)).start()

    def repeat(self, run: Reader) -> Reader:
        """The same request once more."""
        return self._reader(Reader(self, run.run_id, run.body)).start()

    async def rest(self, run: Reader, after: int) -> list[Event]:
        """What comes behind this event; for a run that is over."""
        reader = self._reader(Reader(self, run.run_id))
        headers = {"last-event-id": str(after)}
        path = f"/runs/{run.run_id}/events"
        async with self.http.stream("GET", path, headers=headers) as response:
            reader.events += [event async for event in events(response)]
        return reader.events

    async def get(self, path: str) -> Any:
        response = await self.http.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    async def history(self, run: Reader) -> list[dict[str, Any]]:
        assert run.body is not None
        return (await self.get(f"/sessions/{run.body['threadId']}/history"))["messages"]

    async def run(self, run: Reader) -> dict[str, Any]:
        return await self.get(f"/runs/{run.run_id}")

    async def close(self) -> None:
        tally = self.tally
        for reader in self._readers:
            tally.readers += 1
            tally.reconnects += max(0, reader.connections - 1)
            tally.events += len(reader.events)
            if reader.follower is not None and not reader.follower.done():
                await reader.leave()
        await self.http.aclose()

    def _reader(self, reader: Reader) -> Reader:
        self._readers.append(reader)
        return reader


def shown(frames: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The conversation that a client shows after these frames, in AG-UI shape."""
    messages: dict[str, dict[str, Any]] = {}
    calls: dict[str, dict[str, Any]] = {}
    for frame in frames:
        match frame["type"]:
            case "MESSAGES_SNAPSHOT":
                messages = {m["id"]: dict(m) for m in frame["messages"]}
            case "TEXT_MESSAGE_START":
                id = frame["messageId"]
                messages.setdefault(id, {"id": id, "role": frame["role"], "content": ""})
            case "TEXT_MESSAGE_CONTENT":
                messages[frame["messageId"]]["content"] += frame["delta"]
            case "TOOL_CALL_START":
                id = frame["parentMessageId"]
                parent = messages.setdefault(id, {"id": id, "role": "assistant"})
                call = {"id": frame["toolCallId"], "type": "function"}
                call["function"] = {"name": frame["toolCallName"], "arguments": ""}
                calls[frame["toolCallId"]] = call
                parent.setdefault("toolCalls", []).append(call)
            case "TOOL_CALL_ARGS":
                calls[frame["toolCallId"]]["function"]["arguments"] += frame["delta"]
            case "TOOL_CALL_RESULT":
                result = {"id": frame["messageId"], "role": "tool", "content": frame["content"]}
                messages[frame["messageId"]] = {**result, "toolCallId": frame["toolCallId"]}
            case _:
                pass
    return list(messages.values())


def assert_orderly(reader: Reader) -> None:
    """Ids strictly increase, no matter how often the reader came back; it begins and ends once."""
    known = [event.id for event in reader.events if event.id is not None]
    wrong = [(a, b) for a, b in pairwise(known) if a >= b]
    assert not wrong, f"ids that do not increase: {wrong}"
    types = [frame["type"] for frame in reader.frames]
    assert types[0] == "RUN_STARTED"
    assert types.count("RUN_STARTED") == 1
    assert [type for type in types if type in ENDS] == types[-1:]


async def assert_all_agree(run: Reader, *others: Reader) -> None:
    """Each reader kept order and shows exactly the conversation that PostgreSQL has."""
    readers = [await reader.done() for reader in (run, *others)]
    stored = await run.client.history(run)
    for reader in readers:
        assert_orderly(reader)
        assert shown(reader.frames) == stored
        run.client.tally.conversations += 1
