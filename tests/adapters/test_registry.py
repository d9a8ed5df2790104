"""The registry: who may call what, and that whatever a call does, a result comes of it."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from adapters import tokens
from adapters.tools.registry import Arguments, Registry, Tool, ToolContext, ToolError, declare
from domain.errors import ErrorCode, Permanent, Transient
from domain.tools import ToolKind, ToolList, ToolLists, ToolResult, ToolStatus
from tests.adapters.tool_calls import EVERYTHING, nowhere

pytestmark = pytest.mark.anyio


class Say(Arguments):
    text: str = Field(default="", max_length=10)
    times: int = Field(default=1, ge=1, le=3)


async def echo(arguments: Say, context: ToolContext) -> str:
    return arguments.text * arguments.times


def tool(
    run: Callable[[Say, ToolContext], Awaitable[str]] = echo,
    *,
    name: str = "say",
    kind: ToolKind = ToolKind.READ,
    off_by_default: bool = False,
    result_tokens: int = 8_000,
    timeout_s: float = 30.0,
) -> Tool[Say]:
    return declare(
        name,
        "Say it.",
        Say,
        run,
        kind=kind,
        off_by_default=off_by_default,
        result_tokens=result_tokens,
        timeout_s=timeout_s,
        read_on="say less",
    )


async def said(run: Callable[[Say, ToolContext], Awaitable[str]], **spec: float) -> ToolResult:
    """The result of a tool that does this."""
    made = tool(run, kind=ToolKind.WRITE, timeout_s=spec.get("timeout_s", 30.0))
    return await nowhere(Registry([made])).call("say", {})


async def test_a_call_that_all_lists_admit_runs() -> None:
    result = await nowhere(Registry([tool()])).call("say", {"text": "hi", "times": 2})
    assert (result.status, result.content, result.reason) == (ToolStatus.OK, "hihi", None)


async def test_no_arguments_at_all_are_an_empty_object() -> None:
    assert (await nowhere(Registry([tool()])).call("say", "")).status is ToolStatus.OK


@pytest.mark.parametrize(
    ("lists", "refused_by"),
    [
        (ToolLists((), None, None), "declared"),
        (ToolLists(("other",), None, None), "declared"),
        (ToolLists(None, (), None), "profile"),
        (ToolLists(None, ("other",), None), "profile"),
        (ToolLists(None, None, ()), "system"),
        (ToolLists(None, None, ("other",)), "system"),
        (ToolLists((), (), ()), "declared"),
        (ToolLists(("say", "ghost"), ("*", "ghost"), ("say", "ghost")), None),
        (ToolLists(("*",), ("*",), ("*",)), None),
        (EVERYTHING, None),
    ],
)
async def test_a_denial_names_the_list_that_refused(
    lists: ToolLists, refused_by: str | None
) -> None:
    result = await nowhere(Registry([tool()])).call("say", {"text": "hi"}, lists=lists)
    if refused_by is None:
        assert result.status is ToolStatus.OK
        return
    assert result.status is ToolStatus.DENIED
    assert f"{refused_by} list" in (result.reason or "")
    assert json.loads(result.content) == {"status": "denied", "reason": result.reason}


@pytest.mark.parametrize("system", [None, ("*",), ("other",)])
async def test_a_tool_that_is_off_runs_only_if_the_system_list_names_it(system: ToolList) -> None:
    here = nowhere(Registry([tool(off_by_default=True)]))
    refused = await here.call("say", {}, lists=ToolLists(("say",), ("say",), system))
    admitted = await here.call("say", {}, lists=ToolLists(None, ("*",), ("*", "say")))
    assert (refused.status, admitted.status) == (ToolStatus.DENIED, ToolStatus.OK)


NAMES = ("red", "green", "blue", "off")
ENTRIES = st.sampled_from([*NAMES, "*", "ghost", "Red", "red ", ""])
LISTS = st.one_of(st.none(), st.lists(ENTRIES, max_size=4).map(tuple))


def admitted(entries: ToolList, name: str, *, system: bool = False) -> bool:
    """The rule, said another way than the code says it."""
    if system and name == "off":
        return "off" in (entries or ())
    return entries is None or bool({name, "*"} & set(entries))


@given(LISTS, LISTS, LISTS, st.lists(st.sampled_from([*NAMES, "ghost", "*", ""]), max_size=8))
async def test_what_runs_is_declared_and_in_the_profile_and_in_the_system_list(
    declared: ToolList, profile: ToolList, system: ToolList, calls: Sequence[str]
) -> None:
    ran: set[str] = set()

    def recording(name: str) -> Tool[Say]:
        async def run(arguments: Say, context: ToolContext) -> str:
            ran.add(name)
            return "done"

        return tool(run, name=name, off_by_default=name == "off")

    here = nowhere(Registry([recording(name) for name in NAMES]))
    for name in calls:
        await here.call(name, {}, lists=ToolLists(declared, profile, system))
    allowed = {
        name
        for name in NAMES
        if admitted(declared, name)
        and admitted(profile, name)
        and admitted(system, name, system=True)
    }
    assert ran == allowed & set(calls)


async def test_an_unknown_tool_is_an_error_the_model_reads() -> None:
    result = await nowhere(Registry([tool()])).call("shout", {})
    assert result.status is ToolStatus.ERROR
    assert "'shout'" in result.content


@pytest.mark.parametrize(
    ("arguments", "field", "rule"),
    [
        ('{"text": "h', "arguments", "json"),
        ("[]", "arguments", "object"),
        ("[" * 100_000, "arguments", "json"),
        ({"text": "much too long"}, "text", "10"),
        ({"times": 9}, "times", "3"),
        ({"times": None}, "times", "integer"),
        ({"volume": 1}, "volume", "extra"),
        ('{"text": "\\ud800"}', "arguments", "json"),
        ('{"text": "\ud800"}', "arguments", "unicode"),
    ],
)
async def test_invalid_arguments_are_named_by_field_and_rule(
    arguments: object, field: str, rule: str
) -> None:
    result = await nowhere(Registry([tool()])).call("say", arguments)
    assert result.status is ToolStatus.ERROR
    assert f"invalid arguments: {field}: " in result.content
    assert rule in result.content.lower()


async def test_a_thousand_wrong_fields_make_a_short_reason() -> None:
    wrong = {f"{'x' * 5_000}{i}": i for i in range(1_000)}
    result = await nowhere(Registry([tool()])).call("say", wrong)
    assert len(result.content) < 4_000
    assert "992 more" in result.content


async def test_what_a_tool_says_it_can_not_do_is_a_result() -> None:
    async def refuse(arguments: Say, context: ToolContext) -> str:
        raise ToolError("the cupboard is \x00 bare")

    result = await said(refuse)
    assert (result.status, result.reason) == (ToolStatus.ERROR, "the cupboard is � bare")


async def test_a_tool_that_breaks_is_a_result_that_does_not_spill_its_insides() -> None:
    async def broken(arguments: Say, context: ToolContext) -> str:
        raise KeyError("secret")

    result = await said(broken)
    assert result.status is ToolStatus.ERROR
    assert "secret" not in result.content


@pytest.mark.parametrize("kind", [Transient, Permanent])
async def test_a_broken_world_is_not_a_result(kind: type[Transient | Permanent]) -> None:
    async def down(arguments: Say, context: ToolContext) -> str:
        raise kind("it is down", ErrorCode.CONNECTION)

    with pytest.raises(kind):
        await said(down)


async def test_a_lost_connection_is_worth_another_try() -> None:
    async def down(arguments: Say, context: ToolContext) -> str:
        raise ConnectionResetError("gone")

    with pytest.raises(Transient) as raised:
        await said(down)
    assert raised.value.code is ErrorCode.CONNECTION


async def test_a_tool_that_takes_too_long_is_stopped_and_says_it_may_have_happened() -> None:
    stopped = asyncio.Event()

    async def slow(arguments: Say, context: ToolContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    result = await said(slow, timeout_s=0.01)
    assert stopped.is_set()
    assert result.status is ToolStatus.ERROR
    assert "may or may not have taken effect" in result.content


async def test_a_cancelled_call_is_cancelled() -> None:
    started = asyncio.Event()

    async def wait(arguments: Say, context: ToolContext) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    task = asyncio.create_task(said(wait))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_output_that_nothing_could_store_is_cleaned() -> None:
    async def odd(arguments: Say, context: ToolContext) -> str:
        return "a\x00b\ud800c"

    assert (await said(odd)).content == "a�b�c"


@pytest.mark.parametrize("size", [200_000, 5_000_000])
async def test_output_over_the_bound_keeps_three_quarters_head_and_a_quarter_tail(
    size: int,
) -> None:
    output = "".join(f"line {i}\n" for i in range(size // 10))

    async def chatty(arguments: Say, context: ToolContext) -> str:
        return output

    made = tool(chatty, result_tokens=1_000)
    content = (await nowhere(Registry([made])).call("say", {})).content
    head, _, rest = content.partition("\n\n[…")
    notice, _, tail = rest.partition("…]\n\n")
    assert output.startswith(head)
    assert output.endswith(tail)
    assert 900 < tokens.count(content) <= 1_000
    assert 0.7 < tokens.count(head) / (tokens.count(head) + tokens.count(tail)) < 0.8
    for told in ("say: ", "1,000", f"{len(output):,} characters", "say less"):
        assert told in notice


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="say"):
        Registry([tool(), tool()])


def test_the_schema_is_that_of_the_arguments_and_nothing_else() -> None:
    assert Registry([tool()]).specs["say"].parameters == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "text": {"type": "string", "default": "", "maxLength": 10},
            "times": {"type": "integer", "default": 1, "minimum": 1, "maximum": 3},
        },
    }
