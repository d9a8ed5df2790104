"""The stand-in over real HTTP: what it says, which tools it calls, how it fails when told to."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from tests.fixtures_standin import Standin


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


async def post(standin: Standin, body: dict[str, Any]) -> httpx2.Response:
    async with httpx2.AsyncClient() as http:
        return await http.post(f"{standin.base_url}/chat/completions", json=body)


def chat(said: str, *tools: str, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": said}], **more}
    return {**body, "tools": [tool(name) for name in tools]} if tools else body


async def answer(standin: Standin, said: str, *tools: str) -> dict[str, Any]:
    reply = await post(standin, chat(said, *tools))
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]["message"]


async def call(standin: Standin, said: str, name: str) -> dict[str, Any]:
    message = await answer(standin, said, name)
    function = message["tool_calls"][0]["function"]
    assert function["name"] == name
    return json.loads(function["arguments"])


@pytest.mark.parametrize(
    ("said", "name", "arguments"),
    [
        (
            "Please remember that my favourite tea is oolong.",
            "memory_write",
            {"key": "favourite_tea", "value": "oolong", "tags": ["user"]},
        ),
        (
            "记住：我的名字是小明。",
            "memory_write",
            {"key": "名字", "value": "小明", "tags": ["user"]},
        ),
        ("Forget my name", "memory_forget", {"key": "name", "reason": "the user asked"}),
        ("忘记我的名字", "memory_forget", {"key": "名字", "reason": "the user asked"}),
        ("What do you know about me?", "memory_search", {"query": "user"}),
        ("你知道我什么", "memory_search", {"query": "user"}),
        ("What do you remember about tea?", "memory_search", {"query": "tea"}),
        ("list files", "list_files", {}),
        ("read file notes/a.txt", "read_file", {"path": "notes/a.txt"}),
        ("读文件 a.txt", "read_file", {"path": "a.txt"}),
        ("write file a.txt: one\ntwo", "write_file", {"path": "a.txt", "content": "one\ntwo"}),
    ],
)
async def test_a_message_calls_the_tool_it_asks_for(
    standin: Standin, said: str, name: str, arguments: dict[str, Any]
) -> None:
    assert await call(standin, said, name) == arguments


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("What is 2+3*4?", "2+3*4 = 14"),
        ("(1 + 2) / 4 等于多少", "(1 + 2) / 4 = 0.75"),
        ("What day is 2026-03-01?", "2026-03-01 is a Sunday."),
        ("2026年3月1日是星期几", "2026-03-01 是星期日。"),
        ("days from 2026-01-01 to 2026-03-01", "there are 59 days"),
        ("what is 9/0?", "not a language model"),
        ("good morning", "You said: good morning"),
        ("早上好", "不是语言模型"),
    ],
)
async def test_a_question_gets_an_answer_that_is_right_or_says_what_it_is(
    standin: Standin, said: str, expected: str
) -> None:
    assert expected in (await answer(standin, said))["content"]


async def test_a_tool_that_is_not_offered_is_named_and_not_called(standin: Standin) -> None:
    message = await answer(standin, "remember that I like tea", "read_file")
    assert "memory_write" in message["content"]
    assert "tool_calls" not in message


async def test_results_are_quoted_and_the_call_is_not_repeated(standin: Standin) -> None:
    body = chat("go [[standin: call=look]]", "look")
    first = (await post(standin, body)).json()["choices"][0]["message"]
    results = {"role": "tool", "tool_call_id": "call_0", "content": "blue"}
    body["messages"] += [first, results]
    assert (await post(standin, body)).json()["choices"][0]["message"] == {
        "role": "assistant",
        "content": "look answered: blue",
    }


async def test_a_loop_calls_until_no_tools_are_offered(standin: Standin) -> None:
    body = chat("go [[standin: loop call=look]]", "look")
    for _ in range(2):
        message = (await post(standin, body)).json()["choices"][0]["message"]
        assert message["tool_calls"]
        result = {"role": "tool", "tool_call_id": "call_0", "content": "blue"}
        body["messages"] += [message, result]
    del body["tools"]
    assert "blue" in (await post(standin, body)).json()["choices"][0]["message"]["content"]


async def test_the_same_request_gets_the_same_bytes(standin: Standin) -> None:
    body = chat("hello", stream=True, stream_options={"include_usage": True})
    replies = [await post(standin, body) for _ in range(2)]
    assert replies[0].content == replies[1].content
    assert replies[0].content.endswith(b"data: [DONE]\n\n")
    assert replies[0].headers["x-standin"] == "not-a-language-model"


async def test_usage_comes_in_a_last_chunk_without_choices(standin: Standin) -> None:
    said = "[[standin: tokens=7]]"
    body = chat(said, stream=True, stream_options={"include_usage": True})
    body["messages"].insert(0, {"role": "system", "content": "x" * 1000})
    lines = (await post(standin, body)).text.strip().split("\n\n")
    usage = json.loads(lines[-2].removeprefix("data: "))
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 7
    assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 192}


async def test_an_answer_longer_than_max_tokens_is_cut(standin: Standin) -> None:
    choice = (await post(standin, chat("[[standin: tokens=9]]", max_tokens=2))).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] == "sediment settles "


async def test_a_directive_with_times_lets_the_retry_through(standin: Standin) -> None:
    await standin.control(reset=True)
    body = chat("hi [[standin: status=429 retry_after=1 times=1]]")
    refused, accepted = await post(standin, body), await post(standin, body)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert accepted.status_code == 200


async def test_control_decides_for_the_next_call_and_for_all(standin: Standin) -> None:
    await standin.control(reset=True, always="say=all", next=["status=503"])
    assert (await post(standin, chat("hi"))).status_code == 503
    assert (await answer(standin, "hi"))["content"] == "all"
    await standin.control(always="")
    assert "hi" in (await answer(standin, "hi"))["content"]


async def test_an_unknown_word_is_refused_by_name(standin: Standin) -> None:
    reply = await post(standin, chat("hi [[standin: bogus=1]]"))
    assert reply.status_code == 400
    assert "bogus" in reply.json()["error"]["message"]


async def test_a_cut_drops_the_connection_in_the_middle(standin: Standin) -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        await post(standin, chat("hi [[standin: cut_after=1]]", stream=True))


async def test_a_client_that_leaves_a_stalled_stream_is_counted(standin: Standin) -> None:
    await standin.control(reset=True)
    body = chat("hi [[standin: stall_after=1]]", stream=True)
    async with (
        httpx2.AsyncClient() as http,
        http.stream("POST", f"{standin.base_url}/chat/completions", json=body) as reply,
    ):
        chunks = reply.aiter_bytes()  # kept: a collected iterator closes the connection
        await anext(chunks)
        assert (await standin.report())["active"] == 1
    report = await standin.report()
    async with asyncio.timeout(10):
        while not report["aborted"]:
            await asyncio.sleep(0.02)
            report = await standin.report()
    assert (report["active"], report["aborted"]) == (0, 1)
    assert report["requests"][0]["written"] == 1


ASSISTANT = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    ],
}


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "system", "content": ""}, {"role": "user", "content": "hi"}],
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}],
        [{"role": "user", "content": "hi"}, ASSISTANT],
        [{"role": "user", "content": "hi"}, ASSISTANT, {"role": "user", "content": "so?"}],
        [{"role": "tool", "tool_call_id": "c", "content": "blue"}],
        [{"role": "wizard", "content": "hi"}],
    ],
)
async def test_what_a_strict_provider_refuses_is_refused(
    standin: Standin, messages: list[dict[str, Any]]
) -> None:
    reply = await post(standin, {"model": "m", "messages": messages})
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"


async def test_it_says_everywhere_that_it_is_no_language_model(standin: Standin) -> None:
    async with httpx2.AsyncClient() as http:
        models = (await http.get(f"{standin.base_url}/models")).json()
        health = await http.get(f"{standin.root}/health")
    assert [model["id"] for model in models["data"]] == ["qwen3.5-30b-a3b", "qwen3.5-flash"]
    assert all("Not a language model" in model["owned_by"] for model in models["data"])
    assert "Not a language model" in health.json()["notice"]
