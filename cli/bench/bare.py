"""`python -m cli.bench.bare`: the loop most agent programs are, over the typed SDK, not durable.

Reads one line of JSON per order from standard input and answers each with one line of JSON. The
first says where the model is and what a run looks like (`Setting`), the others how many runs to
play how many at a time (`Order`); the answer has seconds (`Played`).
"""

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import openai
import uvloop
from openai.types.chat import ChatCompletionChunk


@dataclass(frozen=True, slots=True)
class Setting:
    """`opening` is the body of the first call; `results` are what the tools answer, by name."""

    base_url: str
    opening: dict[str, Any]
    results: dict[str, str]


@dataclass(frozen=True, slots=True)
class Order:
    runs: int
    concurrency: int


@dataclass(frozen=True, slots=True)
class Played:
    """Seconds: of each run, of all together, and of this process's CPU."""

    walls: list[float]
    elapsed: float
    cpu: float


async def main() -> None:
    """Until standard input ends."""
    setting = Setting(**json.loads(await _line()))
    async with openai.AsyncOpenAI(
        base_url=setting.base_url, api_key="unset", max_retries=0
    ) as client:
        while line := await _line():
            played = await play(client, setting, Order(**json.loads(line)))
            sys.stdout.write(json.dumps(asdict(played)) + "\n")
            sys.stdout.flush()


async def play(client: openai.AsyncOpenAI, setting: Setting, order: Order) -> Played:
    """Play all runs; a new one begins when one ends."""
    left = iter(range(order.runs))
    walls: list[float] = []

    async def lane() -> None:
        for _ in left:
            began = time.perf_counter()
            await run(client, setting)
            walls.append(time.perf_counter() - began)

    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(lane() for _ in range(order.concurrency)))
    return Played(walls, time.perf_counter() - began, time.process_time() - cpu)


async def run(client: openai.AsyncOpenAI, setting: Setting) -> str:
    """Think, act, repeat; the answer."""
    messages = list(setting.opening["messages"])
    while True:
        text, calls = await _turn(client, {**setting.opening, "messages": messages})
        if not calls:
            return text
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        for call in calls:
            result = setting.results[call["function"]["name"]]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


async def _turn(
    client: openai.AsyncOpenAI, body: dict[str, Any]
) -> tuple[str, list[dict[str, Any]]]:
    pieces: list[str] = []
    calls: dict[int, dict[str, Any]] = {}
    create: Any = client.chat.completions.create  # typed by keyword only
    stream: openai.AsyncStream[ChatCompletionChunk] = await create(**body)
    async for chunk in stream:
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        if delta.content:
            pieces.append(delta.content)
        for part in delta.tool_calls or ():
            function = {"name": "", "arguments": ""}
            call = calls.setdefault(part.index, {"type": "function", "function": function})
            if part.id:
                call["id"] = part.id
            if part.function:
                call["function"]["name"] += part.function.name or ""
                call["function"]["arguments"] += part.function.arguments or ""
    return "".join(pieces), list(calls.values())


async def _line() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    uvloop.run(main())
