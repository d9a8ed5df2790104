"""The model adapter against the stand-in, over real HTTP."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from adapters.llm.openai import OpenAIModel, build_client
from adapters.settings import Dialect, Settings, load
from domain.errors import ErrorCode, OutsideError, Permanent, Transient
from domain.messages import FinishReason, Message, ModelReply, ModelRequest, Role, Usage
from domain.tools import ToolCall, ToolKind, ToolSpec
from tests.fixtures_standin import Standin

LOOK = ToolSpec("look.up", "Looks.", {"type": "object", "properties": {}}, ToolKind.READ)


def settings(base_url: str, timeout_s: float = 30) -> Settings:
    return load(
        {},
        database_url="unused",
        redis_url="unused",
        model_base_url=base_url,
        model_timeout_s=timeout_s,
    )


@pytest.fixture
async def model(standin: Standin) -> AsyncGenerator[OpenAIModel]:
    await standin.control(reset=True)
    async with build_client(settings(standin.base_url)) as client:
        yield OpenAIModel(client, dialect="dashscope")


def request(said: str, *tools: ToolSpec, system: str = "Be brief.", **more: Any) -> ModelRequest:
    return ModelRequest("m", system, (Message("1", Role.USER, said),), tools, **more)


async def nothing(text: str) -> None:
    pass


async def failure(model: OpenAIModel, directive: str) -> OutsideError:
    with pytest.raises(OutsideError) as caught:
        await model.stream(request(f"hi [[standin: {directive}]]"), nothing)
    return caught.value


async def reply(model: OpenAIModel, directive: str, *tools: ToolSpec) -> ModelReply:
    return await model.stream(request(f"hi [[standin: {directive}]]", *tools), nothing)


async def sent(standin: Standin) -> dict[str, Any]:
    return (await standin.report())["requests"][-1]["body"]


async def test_text_arrives_in_pieces_and_whole(model: OpenAIModel) -> None:
    pieces: list[str] = []

    async def on_text(text: str) -> None:
        pieces.append(text)

    said = "hi [[standin: tokens=3 delay_ms=100]]"
    answer = await model.stream(request(said), on_text)
    text = "sediment settles in "
    assert answer == ModelReply(text, (), FinishReason.STOP, Usage(21, 3, 0), "m")
    assert "".join(pieces) == text
    assert len(pieces) > 1


async def test_the_key_is_sent_and_the_connection_is_used_again(
    model: OpenAIModel, standin: Standin
) -> None:
    for _ in range(3):
        await model.stream(request("hi"), nothing)
    requests = (await standin.report())["requests"]
    assert all(seen["authorized"] for seen in requests)
    assert len({seen["peer"] for seen in requests}) == 1


async def test_a_tool_with_a_dot_in_its_name_is_offered_and_called(
    model: OpenAIModel, standin: Standin
) -> None:
    answer = await reply(model, 'call=look_up args={"a":"b"}', LOOK)
    assert answer.tool_calls == (ToolCall("call_0", "look.up", '{"a": "b"}'),)
    assert answer.finish_reason is FinishReason.TOOL_CALLS
    offered = (await sent(standin))["tools"]
    assert offered[0]["function"] == {
        "name": "look_up",
        "description": "Looks.",
        "parameters": {"type": "object", "properties": {}},
    }


@pytest.mark.parametrize("directive", ["two_calls", "two_calls null_content keepalive crlf"])
async def test_interleaved_calls_are_put_together(model: OpenAIModel, directive: str) -> None:
    answer = await reply(model, f'{directive} call=a args={{"x":"长文本"}} call=b args={{"y":2}}')
    assert [(call.name, call.arguments) for call in answer.tool_calls] == [
        ("a", '{"x": "长文本"}'),
        ("b", '{"y": 2}'),
    ]


@pytest.mark.parametrize(
    ("directive", "id", "arguments"),
    [
        ("bad_args", "call_0", '{"a": 1'),
        ("empty_args", "call_0", "{}"),
        ("missing_ids", "call_0", '{"a": 1}'),
    ],
)
async def test_a_call_of_poor_quality_is_still_a_call(
    model: OpenAIModel, directive: str, id: str, arguments: str
) -> None:
    answer = await reply(model, f'{directive} call=a args={{"a":1}}')
    assert answer.tool_calls == (ToolCall(id, "a", arguments),)


@pytest.mark.parametrize(
    ("directive", "text", "finish"),
    [
        ("say=Yes. repeat_final", "Yes.", FinishReason.STOP),
        ("say=Yes. null_content", "Yes.", FinishReason.STOP),
        ("say=Yes. no_done no_usage", "Yes.", FinishReason.STOP),
        ("say=Yes. finish=length", "Yes.", FinishReason.LENGTH),
        ("say=Yes. finish=content_filter", "Yes.", FinishReason.CONTENT_FILTER),
        ("say=Yes. finish=eos", "Yes.", FinishReason.STOP),
        ("empty", "", FinishReason.STOP),
    ],
)
async def test_an_odd_answer_is_an_answer(
    model: OpenAIModel, directive: str, text: str, finish: FinishReason
) -> None:
    answer = await reply(model, directive)
    assert (answer.text, answer.tool_calls, answer.finish_reason) == (text, (), finish)


@pytest.mark.parametrize(
    ("directive", "code"),
    [
        ("status=429", ErrorCode.RATE_LIMIT),
        ("status=408", ErrorCode.TIMEOUT),
        ("status=500", ErrorCode.OVERLOADED),
        ("status=529", ErrorCode.OVERLOADED),
        ("status=502 html", ErrorCode.OVERLOADED),
        ("error_after=2", ErrorCode.OVERLOADED),
        ("error_after=2 code=rate_limit_exceeded", ErrorCode.RATE_LIMIT),
        ("cut_after=0", ErrorCode.CONNECTION),
        ("cut_after=2", ErrorCode.CONNECTION),
        ("finish=insufficient_system_resource", ErrorCode.OVERLOADED),
    ],
)
async def test_what_may_pass_is_transient(
    model: OpenAIModel, directive: str, code: ErrorCode
) -> None:
    error = await failure(model, directive)
    assert isinstance(error, Transient)
    assert error.code == code


@pytest.mark.parametrize(
    ("directive", "code", "words"),
    [
        ("status=401", ErrorCode.AUTHENTICATION, "refused the API key"),
        ("status=403", ErrorCode.AUTHENTICATION, "refused the API key"),
        ("status=429 code=insufficient_quota", ErrorCode.RATE_LIMIT, "quota is used up"),
        ("status=400", ErrorCode.BAD_REQUEST, "refused the request"),
        ("status=404", ErrorCode.BAD_REQUEST, "does not know this model"),
        ("status=400 code=context_length_exceeded", ErrorCode.CONTEXT_LENGTH, "too long"),
        ("status=400 code=data_inspection_failed", ErrorCode.CONTENT_FILTER, "content filter"),
        ("error_after=1 code=content_filter", ErrorCode.CONTENT_FILTER, "content filter"),
    ],
)
async def test_what_will_not_pass_is_permanent_and_says_why(
    model: OpenAIModel, directive: str, code: ErrorCode, words: str
) -> None:
    error = await failure(model, directive)
    assert isinstance(error, Permanent)
    assert error.code == code
    assert words in str(error)


async def test_the_client_does_not_retry_and_passes_on_how_long_to_wait(
    model: OpenAIModel, standin: Standin
) -> None:
    error = await failure(model, "status=429 retry_after=1.5")
    assert error.retry_after == timedelta(seconds=1.5)
    assert (await standin.report())["total"] == 1


@pytest.mark.parametrize("directive", ["stall_after=1", "first_delay_ms=5000"])
async def test_silence_is_a_timeout(standin: Standin, directive: str) -> None:
    async with build_client(settings(standin.base_url, timeout_s=0.3)) as client:
        error = await failure(OpenAIModel(client, dialect="plain"), directive)
    assert (type(error), error.code) == (Transient, ErrorCode.TIMEOUT)


async def test_nobody_listening_is_a_connection_error() -> None:
    async with build_client(settings("http://127.0.0.1:9/v1")) as client:
        error = await failure(OpenAIModel(client, dialect="plain"), "empty")
    assert (type(error), error.code) == (Transient, ErrorCode.CONNECTION)


async def test_an_address_that_answers_with_a_page_is_named_as_such(standin: Standin) -> None:
    async with build_client(settings(f"{standin.base_url}/nowhere")) as client:
        error = await failure(OpenAIModel(client, dialect="plain"), "empty")
    assert isinstance(error, Permanent)
    assert "address" in str(error)


async def test_an_error_of_the_listener_is_not_taken_for_the_models(model: OpenAIModel) -> None:
    async def on_text(text: str) -> None:
        raise ConnectionError("the store is away")

    with pytest.raises(ConnectionError, match="the store is away"):
        await model.stream(request("hi"), on_text)


@pytest.mark.parametrize("directive", ["stall_after=1", "first_delay_ms=60000"])
async def test_cancelling_closes_the_stream_upstream(
    model: OpenAIModel, standin: Standin, directive: str
) -> None:
    call = asyncio.create_task(reply(model, directive))
    async with asyncio.timeout(10):
        while not (await standin.report())["active"]:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        while not (await standin.report())["aborted"]:
            await asyncio.sleep(0.01)
    assert (await standin.report())["active"] == 0


@pytest.mark.parametrize(
    ("dialect", "name", "off", "on"),
    [
        ("dashscope", "qwen", {"enable_thinking": False}, {"enable_thinking": True}),
        (
            "vllm",
            "qwen",
            {"chat_template_kwargs": {"enable_thinking": False}},
            {"chat_template_kwargs": {"enable_thinking": True}},
        ),
        (
            "deepseek",
            "deepseek-chat",
            {"thinking": {"type": "disabled"}},
            {"thinking": {"type": "enabled"}},
        ),
        ("openai", "gpt-5.4-mini", {"reasoning_effort": "none"}, {}),
        ("openai", "gpt-5-nano-2025-08-07", {"reasoning_effort": "minimal"}, {}),
        ("openai", "o4-mini", {"reasoning_effort": "low"}, {}),
        ("openai", "gpt-5.2-chat-latest", {}, {}),
        ("openai", "gpt-4.1", {}, {}),
        ("plain", "llama", {}, {}),
    ],
)
async def test_thinking_is_switched_in_the_words_of_the_provider(
    standin: Standin, dialect: Dialect, name: str, off: dict[str, Any], on: dict[str, Any]
) -> None:
    limit = "max_completion_tokens" if dialect == "openai" else "max_tokens"
    common = {"model", "messages", "stream", "stream_options", limit}
    async with build_client(settings(standin.base_url)) as client:
        model = OpenAIModel(client, dialect=dialect)
        for thinking, expected in ((False, off), (True, on)):
            asked = ModelRequest(name, "", (Message("1", Role.USER, "hi"),), thinking=thinking)
            await model.stream(asked, nothing)
            body = await sent(standin)
            assert {key: body[key] for key in body if key not in common} == expected
            assert body[limit] == 4096
            assert body["stream_options"] == {"include_usage": True}


async def test_an_empty_system_prompt_is_not_sent(model: OpenAIModel, standin: Standin) -> None:
    await model.stream(request("hi", system="  "), nothing)
    assert (await sent(standin))["messages"] == [{"role": "user", "content": "hi"}]


async def test_text_that_no_encoder_takes_is_sent_with_replacements(
    model: OpenAIModel, standin: Standin
) -> None:
    await model.stream(request("a\ud800b\x00c"), nothing)
    assert (await sent(standin))["messages"][-1]["content"] == "a�b�c"
