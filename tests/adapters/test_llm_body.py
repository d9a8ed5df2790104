"""Whatever a conversation holds, a strict provider takes the request."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from adapters.llm.body import EMPTY, Names, build
from domain.messages import Message, ModelRequest, Role
from domain.tools import ToolCall, ToolKind, ToolSpec
from standin.request import read

ANY = st.text(st.characters(), max_size=12)


def spec(name: str) -> ToolSpec:
    return ToolSpec(name, "", {"type": "object"}, ToolKind.READ)


def body(*messages: Message, system: str = "", tools: tuple[ToolSpec, ...] = ()) -> dict[str, Any]:
    request = ModelRequest("m", system, messages, tools)
    return build(request, Names.of(tools), "plain")


@st.composite
def rounds(draw: st.DrawFn) -> list[Message]:
    """A window as the context builder leaves it: calls answered, nothing else promised."""
    messages: list[Message] = []
    for number in range(draw(st.integers(1, 5))):
        role = draw(st.sampled_from([Role.USER, Role.SYSTEM, Role.ASSISTANT]))
        ids = [f"c{number}_{n}" for n in range(draw(st.integers(0, 2)))]
        asked = tuple(ToolCall(id, draw(ANY), draw(ANY)) for id in ids)
        calls = asked if role is Role.ASSISTANT else ()
        messages.append(Message(f"m{number}", role, draw(ANY), calls))
        messages += [Message(call.id, Role.TOOL, draw(ANY), tool_call_id=call.id) for call in calls]
    return [*messages, Message("last", Role.USER, draw(ANY))]


@given(rounds(), ANY, st.lists(ANY, max_size=4, unique=True))
def test_any_window_is_accepted_by_a_strict_provider(
    messages: list[Message], system: str, tools: list[str]
) -> None:
    built = body(*messages, system=system, tools=tuple(spec(name) for name in tools))
    wire = json.loads(json.dumps(built, ensure_ascii=False).encode())
    read(wire)
    assert all(m["role"] != "system" for m in wire["messages"][1:])


@given(st.lists(ANY, max_size=6, unique=True))
def test_every_tool_name_finds_its_way_back(tools: list[str]) -> None:
    names = Names.of(spec(name) for name in tools)
    assert [names.inward(names.outward(name)) for name in tools] == tools


def test_arguments_that_are_no_object_are_shown_to_the_model_as_they_were() -> None:
    calls = tuple(ToolCall(str(n), "f", text) for n, text in enumerate(['{"a": 1}', '{"a', "[1]"]))
    results = [Message(str(n), Role.TOOL, "x", tool_call_id=str(n)) for n in range(3)]
    built = body(Message("1", Role.ASSISTANT, "", calls), *results)
    sent = [call["function"]["arguments"] for call in built["messages"][0]["tool_calls"]]
    assert sent == ['{"a": 1}', '{"invalid_json": "{\\"a"}', '{"invalid_json": "[1]"}']


def test_empty_messages_are_left_out_or_marked() -> None:
    built = body(Message("1", Role.ASSISTANT, ""), Message("2", Role.USER, ""))
    assert built["messages"] == [{"role": "user", "content": EMPTY}]
    assert "tools" not in built


def test_leading_system_messages_join_the_prompt_and_later_ones_do_not() -> None:
    built = body(
        Message("1", Role.SYSTEM, "Be kind."),
        Message("2", Role.USER, "hi"),
        Message("3", Role.SYSTEM, "It is late."),
        system="Be brief.",
    )
    assert built["messages"] == [
        {"role": "system", "content": "Be brief.\n\nBe kind."},
        {"role": "user", "content": "hi"},
        {"role": "user", "content": "It is late."},
    ]
