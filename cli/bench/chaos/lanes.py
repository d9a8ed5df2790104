"""Clients that never give up: each lane has one run after the other and remembers what it saw."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from random import Random
from typing import Any

from cli.bench.chaos.scripts import Script, draw_script
from cli.client import ENDS, AgentClient, ApiError, Frame, Unreachable

POINTS = (
    "RUN_STARTED",
    "STEP_STARTED",
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "TOOL_CALL_END",
    "TOOL_CALL_RESULT",
    "RUN_FINISHED",
)
"""Boundaries of a run at which something may be broken, as its reader sees them."""

_BUSY_S = 20.0  # a session that is busy for longer after its run has ended is stuck
_SAME_SESSION = 0.4  # share of runs that go on in the lane's last session


class Board:
    """Where the lanes tell how far their runs are."""

    def __init__(self) -> None:
        self._reached = {point: asyncio.Event() for point in POINTS}

    def tell(self, point: str) -> None:
        if event := self._reached.get(point):
            event.set()

    async def next(self, point: str, within_s: float) -> bool:
        """Wait until some run gets there; False if none does in that time."""
        event = self._reached[point]
        event.clear()
        try:
            async with asyncio.timeout(within_s):
                await event.wait()
        except TimeoutError:
            return False
        return True


@dataclass(slots=True)
class Told:
    """A run as its client saw it. `disorder`: ids that went back within one reading; `refused`: why
    it was never accepted."""

    run_id: str
    thread_id: str
    script: Script
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    last_id: int = -1
    disorder: int = 0
    reconnects: int = 0
    end: dict[str, Any] | None = None
    refused: str | None = None
    question: str | None = None  # id of the checkpoint that it waits for
    segment: str | None = None  # the id under which it went on

    @property
    def text(self) -> str:
        """Of the last thing that the assistant said."""
        said = [m for m in self.messages if m["role"] == "assistant" and m.get("content")]
        return said[-1]["content"] if said else ""

    def take(self, frame: Frame) -> None:
        if frame.id is not None:
            self.disorder += frame.id < self.last_id  # equal: a frame that has none
            self.last_id = frame.id
        event = frame.event
        match frame.type:
            case "MESSAGES_SNAPSHOT":
                self.messages = [dict(message) for message in event["messages"]]
            case "TEXT_MESSAGE_START":
                self.messages.append({"id": event["messageId"], "role": "assistant", "content": ""})
            case "TEXT_MESSAGE_CONTENT":
                self._said(event["messageId"])["content"] += event["delta"]
            case "RUN_FINISHED" if asked := event.get("outcome", {}).get("interrupts"):
                self.question = asked[0]["id"]
            case _ if frame.type in ENDS:
                self.end = event
            case _:
                pass

    def again(self) -> None:
        """It reads from the beginning."""
        self.reconnects += 1
        self.last_id = -1

    def _said(self, message_id: str) -> dict[str, Any]:
        return next(m for m in reversed(self.messages) if m["id"] == message_id)


class Lane:
    def __init__(self, name: str, client: AgentClient, board: Board, draw: Random) -> None:
        self._name = name
        self._client = client
        self._board = board
        self._draw = draw
        self._thread = f"{name}-0"

    async def go(self, numbers: Iterator[int], told: list[Told]) -> None:
        """Take the next run until there is none."""
        for number in numbers:
            run_id = f"{self._name}-{number}"
            if self._draw.random() > _SAME_SESSION:
                self._thread = f"{self._name}-{number}"
            one = Told(run_id, self._thread, draw_script(run_id, self._draw))
            told.append(one)
            await self._told(one)

    async def _told(self, one: Told) -> None:
        loop = asyncio.get_running_loop()
        stop_after = self._draw.randint(0, 60) if one.script.stops else None
        give_up = loop.time() + _BUSY_S
        while one.end is None:
            if one.question is not None and one.segment is None:
                await self._answer(one, one.question)
            try:
                async with aclosing(self._frames(one)) as frames:
                    await self._follow(one, frames, stop_after)
            except Unreachable:
                one.again()
            except ApiError as error:
                if error.status != HTTPStatus.CONFLICT or loop.time() > give_up:
                    one.refused = str(error)
                    return
                await asyncio.sleep(0.5)

    async def _answer(self, one: Told, question: str) -> None:
        """The same answer until it counts."""
        body = {"action": "answer", "input": one.run_id}
        while one.segment is None:
            try:
                await self._client.ask("POST", f"/checkpoints/{question}", body=body)
                run = await self._client.get_run(one.run_id)
            except (ApiError, Unreachable):
                await asyncio.sleep(0.5)
                continue
            key = run["workflowId"].removeprefix("run/").replace("-", "")
            one.segment = f"seg_{key}_1"
            one.last_id = -1

    def _frames(self, one: Told) -> AsyncGenerator[Frame]:
        if one.segment is not None:
            return self._client.replay(one.segment)
        return self._client.run(
            one.thread_id, one.script.text, run_id=one.run_id, message_id=f"m-{one.run_id}"
        )

    async def _follow(
        self, one: Told, frames: AsyncGenerator[Frame], stop_after: int | None
    ) -> None:
        """`stop_after`: how many frames after which it says stop."""
        seen = Counter[str]()
        async for frame in frames:
            one.take(frame)
            self._board.tell(frame.type)
            seen[frame.type] += 1
            if stop_after is not None and seen.total() > stop_after:
                stop_after = None if await self._stopped(one) else stop_after

    async def _stopped(self, one: Told) -> bool:
        try:
            await self._client.interrupt(one.run_id)
        except (ApiError, Unreachable):
            return False
        return True
