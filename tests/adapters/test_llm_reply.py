"""Putting an answer together from bytes, however they were cut."""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.llm.body import Names
from adapters.llm.failures import retry_after
from adapters.llm.reply import ReplyReader
from domain.errors import ErrorCode, OutsideError, Transient
from domain.messages import FinishReason, ModelReply, Usage
from domain.tools import ToolCall

NAMES = Names.of(())


def read(blocks: list[bytes]) -> tuple[ModelReply, str]:
    """The reply, and the text as it was handed out."""
    reader = ReplyReader()
    text = "".join(reader.feed(block) for block in blocks) + reader.close()
    return reader.reply("asked", NAMES), text


def chunk(delta: dict[str, Any] | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def call(name: str | None = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return chunk({"content": None, "tool_calls": [{**more, "function": function}]})


def stream(*chunks: dict[str, Any], end: str = "\n", done: bool = True) -> bytes:
    events = [f"data: {json.dumps(c, ensure_ascii=False)}{end}{end}" for c in chunks]
    return ("".join(events) + (f"data: [DONE]{end}{end}" if done else "")).encode()


def calls(*chunks: dict[str, Any]) -> list[tuple[str, str, str]]:
    reply, _ = read([stream(*chunks, chunk({}, "tool_calls"))])
    return [(c.id, c.name, c.arguments) for c in reply.tool_calls]


EXAMPLE: tuple[dict[str, Any], ...] = (
    chunk({"role": "assistant", "content": ""}, model="told"),
    chunk({"content": "varve 纹泥 🪨 "}),
    chunk({"content": "\r\n is \\n text"}),
    call("look", "", index=0, id="a"),
    call("see", '{"b": ', index=1, id="b"),
    call(None, '{"a": "é"}', index=0),
    call(None, "2}", index=1),
    chunk({}, "tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}},
)
EXPECTED = ModelReply(
    "varve 纹泥 🪨 \r\n is \\n text",
    (ToolCall("a", "look", '{"a": "é"}'), ToolCall("b", "see", '{"b": 2}')),
    FinishReason.TOOL_CALLS,
    Usage(9, 4, 0),
    "told",
)


@given(
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    keepalive=st.booleans(),
    bom=st.booleans(),
    cuts=st.lists(st.integers(0, 2000), max_size=40),
)
def test_no_cut_and_no_line_end_changes_the_reply(
    end: str, keepalive: bool, bom: bool, cuts: list[int]
) -> None:
    data = stream(*EXAMPLE, end=end)
    if keepalive:
        data = f": ping{end}{end}".encode() + data.replace(b"data:", f": ping{end}data:".encode())
    if bom and not keepalive:
        data = b"\xef\xbb\xbf" + data
    edges = [0, *sorted(cuts), len(data)]
    reply, text = read([data[a:b] for a, b in pairwise(edges)])
    assert reply == EXPECTED
    assert text == EXPECTED.text


def test_one_byte_at_a_time_is_no_different() -> None:
    data = stream(*EXAMPLE, end="\r\n")
    assert read([data[i : i + 1] for i in range(len(data))]) == (EXPECTED, EXPECTED.text)


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_break_it_in_an_unknown_way(blocks: list[bytes]) -> None:
    with pytest.raises(OutsideError):
        read([b"data: " + blocks[0] if blocks else b"", *blocks])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "delta", "content", "tool_calls", "function", "usage", "error"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_no_shape_of_chunk_breaks_it_in_an_unknown_way(value: Any) -> None:
    with suppress(OutsideError):
        read([f"data: {json.dumps(value)}\n\n".encode(), stream(chunk({}, "stop"))])


def test_data_on_several_lines_is_one_event_and_the_last_blank_line_may_be_missing() -> None:
    data = b'data: {"choices": [{"delta":\ndata:{"content": "x"},\ndata: "finish_reason": "stop"}]}'
    assert read([data])[0].text == "x"


def test_a_repeated_final_chunk_adds_nothing() -> None:
    final = chunk({"content": "end"}, "stop")
    reply, text = read([stream(chunk({"content": "the "}), final, final)])
    assert reply.text == text == "the end"


def test_a_stream_without_an_end_is_a_broken_connection() -> None:
    with pytest.raises(Transient) as caught:
        read([stream(chunk({"content": "the"}), done=False)])
    assert caught.value.code == ErrorCode.CONNECTION


def test_done_without_a_finish_reason_is_an_end() -> None:
    assert read([stream(chunk({"content": "x"}))])[0].finish_reason is FinishReason.STOP


def test_length_in_the_middle_of_arguments_keeps_what_there_is() -> None:
    reply, _ = read([stream(call("look", '{"a', index=0, id="a"), chunk({}, "length"))])
    assert reply.finish_reason is FinishReason.LENGTH
    assert reply.tool_calls == (ToolCall("a", "look", '{"a'),)


@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_calls_that_share_an_index_are_told_apart_by_their_ids(index: dict[str, int]) -> None:
    assert calls(call("a", "{}", id="x", **index), call("b", "{}", id="y", **index)) == [
        ("x", "a", "{}"),
        ("y", "b", "{}"),
    ]


def test_calls_without_index_and_id_are_told_apart_by_their_names() -> None:
    assert calls(call("a", "{"), call(None, "}"), call("b", {"k": 1})) == [
        ("call_0", "a", "{}"),
        ("call_1", "b", '{"k": 1}'),
    ]


def test_a_name_may_be_repeated_or_come_in_pieces() -> None:
    assert calls(call("look", "{", index=0, id="x"), call("look", "}", index=0, id="x")) == [
        ("x", "look", "{}")
    ]
    assert calls(call("lo", None, index=0, id="x"), call("ok", "{}", index=0)) == [
        ("x", "look", "{}")
    ]


@pytest.mark.parametrize("arguments", [None, "", " ", "null"])
def test_no_arguments_are_an_empty_object(arguments: str | None) -> None:
    assert calls(call("look", arguments, index=0, id="x")) == [("x", "look", "{}")]


def test_a_call_without_a_name_is_no_call() -> None:
    reply, _ = read([stream(call(None, "{}", index=0, id="x"), chunk({}, "tool_calls"))])
    assert (reply.tool_calls, reply.finish_reason) == ((), FinishReason.STOP)


def test_text_that_no_store_takes_is_replaced() -> None:
    data = (
        b'data: {"choices":[{"delta":{"content":"a\\ud800b\\u0000c"},"finish_reason":"stop"}]}\n\n'
    )
    assert read([data])[0].text == "a�b�c"


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 5}},
        {"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 5},
    ],
)
def test_cached_tokens_are_found_where_providers_put_them(usage: dict[str, Any]) -> None:
    reply, _ = read([stream(chunk({"content": "x"}, "stop"), {"choices": [], "usage": usage})])
    assert reply.usage == Usage(9, 4, 5)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "2"}, timedelta(seconds=2)),
        ({"retry-after-ms": "1500", "retry-after": "9"}, timedelta(seconds=1.5)),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, timedelta(seconds=30)),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, timedelta(0)),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "nan"}, None),
        ({}, None),
    ],
)
def test_the_wait_a_provider_asks_for_is_understood(
    headers: dict[str, str], wait: timedelta | None
) -> None:
    assert retry_after(headers, datetime(2026, 1, 1, tzinfo=UTC)) == wait
