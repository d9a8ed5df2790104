"""CPU of one streamed model turn, four ways: what the lean client saves, on the machine at hand."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx2
import jiter
import openai
from openai.types.chat import ChatCompletionChunk

from adapters.llm import body
from adapters.llm.openai import OpenAIModel, build_client
from adapters.llm.sse import EventData
from adapters.settings import Dialect, Settings
from domain.messages import Message, ModelRequest, Role
from domain.tools import ToolCall, ToolKind, ToolSpec

_ROUNDS = 5  # every way gets a turn in each round, so that drift of the machine hits all alike
_PLAIN: Dialect = "plain"

Turn = Callable[[], Awaitable[int]]
"""Plays one turn and returns the characters of text that came."""


@dataclass(frozen=True, slots=True)
class Figure:
    """CPU milliseconds of this process per turn (the model server is another process)."""

    way: str
    cpu_ms: float
    turns: int
    characters: int  # of one turn; the same for every way


def ordinary_request(said: str, exchanges: int = 20, tools: int = 10) -> ModelRequest:
    """A window of three messages per exchange and a last one that says `said`."""
    messages: list[Message] = []
    for number in range(exchanges):
        call = ToolCall(f"call_{number}", "tool_0", '{"path": "notes.txt"}')
        messages += [
            Message(f"u{number}", Role.USER, "A question of ordinary length. " * 8),
            Message(f"a{number}", Role.ASSISTANT, "Some words first. " * 8, (call,)),
            Message(f"t{number}", Role.TOOL, "A line of a result. " * 16, tool_call_id=call.id),
        ]
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    specs = (
        ToolSpec(f"tool_{number}", "What this tool is for. " * 6, schema, ToolKind.READ)
        for number in range(tools)
    )
    window = (*messages, Message("last", Role.USER, said))
    return ModelRequest("qwen3.5-30b-a3b", "Be brief. " * 40, window, tuple(specs))


async def compare(
    settings: Settings, *, chunks: int = 200, turns: int = 50, pace: str = ""
) -> list[Figure]:
    """Figures for the typed SDK, the SDK's raw stream, our adapter and bare httpx2.

    `settings.model_base_url` has to be a stand-in; `pace` are directive words for it, such as
    `flush` or `delay_ms=1`. At least one round of one turn each is played to warm up.
    """
    request = ordinary_request(f"[[standin: tokens={chunks} {pace}]]")
    content = body.build(request, body.Names.of(request.tools), _PLAIN)
    async with (
        openai.AsyncOpenAI(
            base_url=settings.model_base_url,
            api_key=settings.model_api_key.get_secret_value(),
            max_retries=0,
        ) as sdk,
        build_client(settings) as client,
        httpx2.AsyncClient() as http,
    ):
        model = OpenAIModel(client, dialect=_PLAIN)
        url = f"{str(settings.model_base_url).rstrip('/')}/chat/completions"
        ways: dict[str, Turn] = {
            "openai SDK, typed stream": lambda: _typed(sdk, content),
            "openai SDK, raw stream": lambda: _raw(sdk, content),
            "varve": lambda: _ours(model, request),
            "httpx2 alone": lambda: _bare(http, url, content),
        }
        return await _measure(ways, turns)


async def _measure(ways: dict[str, Turn], turns: int) -> list[Figure]:
    characters = {way: await turn() for way, turn in ways.items()}
    spent = dict.fromkeys(ways, 0.0)
    each = max(1, turns // _ROUNDS)
    for _ in range(_ROUNDS):
        for way, turn in ways.items():
            before = time.process_time()
            for _ in range(each):
                await turn()
            spent[way] += time.process_time() - before
    count = each * _ROUNDS
    return [Figure(way, spent[way] / count * 1000, count, characters[way]) for way in ways]


async def _typed(sdk: openai.AsyncOpenAI, content: dict[str, Any]) -> int:
    """The loop that most agent programs have at their heart."""
    characters = 0
    create: Any = sdk.chat.completions.create  # typed by keyword only
    stream: openai.AsyncStream[ChatCompletionChunk] = await create(**content)
    async for chunk in stream:
        if chunk.choices and (text := chunk.choices[0].delta.content):
            characters += len(text)
    return characters


async def _raw(sdk: openai.AsyncOpenAI, content: dict[str, Any]) -> int:
    create: Any = sdk.chat.completions.with_streaming_response.create
    async with create(**content) as response:
        events = EventData()
        return sum([_characters(events.feed(block)) async for block in response.iter_bytes()])


async def _bare(http: httpx2.AsyncClient, url: str, content: dict[str, Any]) -> int:
    async with http.stream("POST", url, json=content) as response:
        events = EventData()
        return sum([_characters(events.feed(block)) async for block in response.aiter_bytes()])


async def _ours(model: OpenAIModel, request: ModelRequest) -> int:
    async def on_text(text: str) -> None:
        pass

    return len((await model.stream(request, on_text)).text)


def _characters(events: list[bytes]) -> int:
    total = 0
    for data in events:
        if data != b"[DONE]" and (choices := jiter.from_json(data)["choices"]):
            total += len(choices[0]["delta"].get("content") or "")
    return total
