"""Questions of runs in the terminal: in the conversation, and in the inbox."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from cli.asking import put
from cli.chat import Talk
from tests.cli.test_commands import Shell
from tests.fixtures_api import PREFIX, Api, Person, serving_api
from tests.fixtures_worker import System

pytestmark = pytest.mark.anyio

ASK = '[[standin: call=ask_clarification args={"question":"Which one?","options":["red","blue"]}]]'


@pytest.fixture
async def served(system: System) -> AsyncGenerator[Api]:
    async with serving_api(system.settings, system.pool) as api:
        yield api


@pytest.fixture
async def ada(served: Api) -> Person:
    return await served.person("ada")


@pytest.fixture
def varve(served: Api, ada: Person, tmp_path: Path) -> Shell:
    url = served.base_url.removesuffix(PREFIX)
    return Shell(tmp_path, VARVE_API_URL=url, VARVE_API_KEY=ada.key)


async def test_a_question_is_found_shown_and_answered(varve: Shell) -> None:
    said = await varve("chat", "--message", ASK, "--json", "--session", "t")
    assert said.code == 3
    answer = json.loads(said.out)
    assert (answer["outcome"], answer["questions"][0]["message"]) == ("interrupt", "Which one?")
    (listed,) = await varve.json("inbox", "list")
    assert (listed["title"], listed["state"]) == ("Clarification", "open")
    shown = (await varve("inbox", "show", listed["id"])).out
    assert "Which one?" in shown
    assert "option_2" in shown
    refused = await varve("inbox", "answer", listed["id"], "perhaps")
    assert (refused.code, "option_1" in refused.err) == (1, True)
    assert (await varve("inbox", "answer", listed["id"], "option_2")).code == 0
    assert await varve.json("inbox", "list") == []
    (after,) = await varve.json("inbox", "list", "--which", "all")
    assert after["action"] == "option_2"
    late = await varve("inbox", "answer", listed["id"], "answer", "green")
    assert (late.code, "answered already" in late.err) == (1, True)


async def test_whoever_talks_is_asked_and_the_answer_goes_on(served: Api, ada: Person) -> None:
    asked: list[dict[str, Any]] = []

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question)
        payload = {"action": "answer", "input": "the green one"}
        return {"interruptId": question["id"], "status": "resolved", "payload": payload}

    url = served.base_url.removesuffix(PREFIX)
    talk = Talk(url, ada.key, "t", None, lambda frame: None, answer)
    done = await talk.say(ASK)
    assert [question["message"] for question in asked] == ["Which one?"]
    assert (done.questions, done.exit_code) == ([], 0)
    assert "the green one" in done.tools[0]["result"]


def test_what_is_typed_becomes_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    call = {"id": "i", "reason": "tool_call", "message": "May it?"}
    actions = [
        {"id": "option_1", "label": "red", "type": "select"},
        {"id": "answer", "label": "Answer", "type": "text_input"},
    ]
    other = {"id": "i", "reason": "input_required", "metadata": {"actions": actions}}
    typed: list[tuple[dict[str, Any], list[str], Any]] = [
        (call, ["what?", "y"], {"approved": True}),
        (call, ["s"], {"approved": True, "forSession": True}),
        (call, ["n", "too late"], {"approved": False, "reason": "too late"}),
        (call, ["e", "no json", "e", '{"a": 1}'], {"approved": True, "editedArgs": {"a": 1}}),
        (other, ["1"], {"action": "option_1"}),
        (other, ["2", "green"], {"action": "answer", "input": "green"}),
        (other, ["", "green"], {"action": "answer", "input": "green"}),
        (other, [], None),
    ]
    for question, lines, payload in typed:
        left = iter(lines)

        def read(*_: object, left: Any = left, **__: object) -> str:
            try:
                return next(left)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr("builtins.input", read)
        entry = put(question)
        assert entry.get("payload") == payload
        assert entry["status"] == ("cancelled" if payload is None else "resolved")
