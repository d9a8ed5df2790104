"""The official OpenAI client chats with a durable agent, and nothing it said is lost."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from openai import APIError, AsyncOpenAI, BadRequestError

from tests.fixtures_api import PREFIX, Api, Person
from tests.fixtures_worker import System

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ada(served: Api) -> Person:
    return await served.person("ada")


@pytest.fixture
async def client(served: Api, ada: Person) -> AsyncGenerator[AsyncOpenAI]:
    base = served.base_url.removesuffix(PREFIX) + "/v1"
    async with AsyncOpenAI(base_url=base, api_key=ada.key, max_retries=0) as client:
        yield client


def user(text: str) -> Any:
    return {"role": "user", "content": text}


async def streamed(client: AsyncOpenAI, *messages: Any, **more: Any) -> tuple[str, list[Any]]:
    chunks: list[Any] = []
    stream = await client.chat.completions.create(
        model="chat_default", messages=list(messages), stream=True, **more
    )
    async for chunk in stream:
        chunks.append(chunk)
    pieces = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    return "".join(pieces), chunks


async def history(person: Person, thread: str) -> list[tuple[str, str]]:
    found = (await person.http.get(f"/sessions/{thread}/history")).json()["messages"]
    return [(m["role"], m["content"]) for m in found if m["role"] in ("user", "assistant")]


async def test_it_answers_whole_and_in_pieces_and_says_what_it_used(client: AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="chat_default", messages=[user("what is 2+3?")], temperature=0.5
    )
    assert (answer.object, answer.choices[0].message.content) == ("chat.completion", "2+3 = 5")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.prompt_tokens > 0
    text, chunks = await streamed(
        client,
        user("[[standin: tokens=50 delay_ms=5 flush]]"),
        stream_options={"include_usage": True},
    )
    assert len(text.split()) == 50
    assert len(chunks) > 4
    assert chunks[-1].usage.completion_tokens > 0
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert len({chunk.id for chunk in chunks}) == 1


async def test_a_conversation_without_a_session_id_is_recognised(
    client: AsyncOpenAI, ada: Person, system: System
) -> None:
    said: list[Any] = [{"role": "system", "content": "Be brief."}, user("my name is Ada")]
    for question in ("what is 1+1?", "what is 2+2?", "and now?"):
        answer = await client.chat.completions.create(model="varve", messages=said)
        said += [
            {"role": "assistant", "content": answer.choices[0].message.content},
            user(question),
        ]
    [session] = (await ada.http.get("/sessions")).json()["items"]
    told = [
        ("user", m["content"]) if m["role"] == "user" else ("assistant", m["content"])
        for m in said[1:-1]
    ]
    assert await history(ada, session["threadId"]) == told
    unread = await system.pool.fetchval(
        "SELECT count(*) FROM messages WHERE role = 'user' AND NOT hidden_from_user"
    )
    assert unread == 3


async def test_a_conversation_that_began_elsewhere_is_brought_along(
    client: AsyncOpenAI, ada: Person
) -> None:
    messages: list[Any] = [
        user("what is 40+2?"),
        {"role": "assistant", "content": "42"},
        user("what is 1+1?"),
    ]
    text, _ = await streamed(client, *messages)
    [session] = (await ada.http.get("/sessions")).json()["items"]
    assert await history(ada, session["threadId"]) == [
        ("user", "what is 40+2?"),
        ("assistant", "42"),
        ("user", "what is 1+1?"),
        ("assistant", text),
    ]


async def test_a_session_of_the_clients_choice_is_the_truth(
    client: AsyncOpenAI, ada: Person
) -> None:
    for place, question in enumerate(("what is 1+1?", "what is 2+2?")):
        made_up: list[Any] = [user("never said"), {"role": "assistant", "content": "nor this"}]
        more: dict[str, Any] = {"user": "desk"}
        if place:
            more = {"extra_headers": {"x-varve-session": "desk"}}
        await client.chat.completions.create(
            model="varve", messages=[*made_up, user(question)], **more
        )
    assert [text for role, text in await history(ada, "desk") if role == "user"] == [
        "what is 1+1?",
        "what is 2+2?",
    ]


async def test_tools_run_inside_and_memory_keeps_what_was_said(
    client: AsyncOpenAI, ada: Person
) -> None:
    text, _ = await streamed(client, user("remember that my name is Ada"))
    assert text
    facts = (await ada.http.get("/memory/facts")).json()["items"]
    assert "Ada" in facts[0]["value"]


async def test_a_client_that_goes_away_stops_nothing(client: AsyncOpenAI, ada: Person) -> None:
    stream = await client.chat.completions.create(
        model="varve",
        messages=[user("[[standin: tokens=60 delay_ms=20 flush]]")],
        stream=True,
        user="gone",
    )
    async for _ in stream:
        break
    await stream.close()
    async with asyncio.timeout(20):
        while len(await history(ada, "gone")) < 2:
            await asyncio.sleep(0.1)
    assert len((await history(ada, "gone"))[1][1].split()) == 60


async def test_a_retried_model_call_reads_as_one_text(client: AsyncOpenAI) -> None:
    cut = "[[standin: cut_after=5 times=1 id=openai-cut]] [[standin: tokens=20 flush]]"
    text, _ = await streamed(client, user(cut))
    assert len(text.split()) == 20


async def test_an_attempt_that_said_something_else_is_followed_by_the_whole_answer(
    client: AsyncOpenAI,
) -> None:
    cut = "[[standin: cut_after=5 tokens=20 flush times=1 id=openai-other]] what is 2+3?"
    text, _ = await streamed(client, user(cut))
    assert text.endswith("\n\n2+3 = 5")
    answer = await client.chat.completions.create(
        model="varve", messages=[user(cut.replace("other", "third"))]
    )
    assert answer.choices[0].message.content == "2+3 = 5"


async def test_a_question_to_a_person_ends_the_answer(client: AsyncOpenAI, ada: Person) -> None:
    ask = '[[standin: call=ask_clarification args={"question":"Which one?"}]]'
    answer = await client.chat.completions.create(model="varve", messages=[user(ask)], user="q")
    assert "Which one?" in (answer.choices[0].message.content or "")
    [open_one] = (await ada.http.get("/checkpoints")).json()["items"]
    assert open_one["id"] in (answer.choices[0].message.content or "")


async def test_errors_have_openai_s_shape(client: AsyncOpenAI, served: Api) -> None:
    with pytest.raises(BadRequestError) as unknown:
        await client.chat.completions.create(model="gpt-4", messages=[user("hi")])
    assert unknown.value.param == "model"
    tool: Any = {"type": "function", "function": {"name": "f", "parameters": {}}}
    with pytest.raises(BadRequestError) as tools:
        await client.chat.completions.create(model="varve", messages=[user("hi")], tools=[tool])
    assert tools.value.param == "tools"
    with pytest.raises(BadRequestError):
        await client.chat.completions.create(model="varve", messages=[user("hi")], n=2)
    with pytest.raises(APIError) as failed:
        await client.chat.completions.create(
            model="varve", messages=[user("[[standin: status=401]]")]
        )
    assert failed.value.code == "authentication"
    with pytest.raises(APIError):
        await streamed(client, user("[[standin: status=401]]"))
    stranger = client.with_options(api_key="vk_nobody")
    with pytest.raises(APIError) as nobody:
        await stranger.chat.completions.create(model="varve", messages=[user("hi")])
    assert nobody.value.type == "authentication_error"


async def test_models_are_the_profiles_one_may_use(client: AsyncOpenAI) -> None:
    names = [model.id async for model in client.models.list()]
    assert names[0] == "varve"
    assert "chat_default" in names
