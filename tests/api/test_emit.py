"""The one place that writes frames: whatever is in them, what leaves is a frame."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.sse import bounded, emit
from domain.agui_reader import Numbered
from domain.agui_shapes import Frame
from domain.messages import Message, Role


def content(delta: str, **members: Any) -> Numbered:
    frame = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": delta, **members}
    return Numbered(7, frame)


@given(st.text(st.characters(), min_size=1))
def test_any_text_is_one_line_of_json_and_comes_back_but_for_what_can_not_be_sent(
    text: str,
) -> None:
    head, data, *rest = emit(content(text)).decode().split("\n")
    assert (head, rest) == ("id: 7", ["", ""])
    assert data.splitlines() == [data]
    sendable = "".join("�" if c == "\x00" or "\ud800" <= c <= "\udfff" else c for c in text)
    assert json.loads(data.removeprefix("data: "))["delta"] == sendable


def test_text_that_only_looks_like_a_nul_is_kept() -> None:
    data = emit(content("\\u0000")).decode().split("\n")[1]
    assert json.loads(data.removeprefix("data: "))["delta"] == "\\u0000"


def test_unknown_members_and_nulls_never_leave() -> None:
    data = emit(content("x", colour="red", metadata=None)).decode()
    assert "colour" not in data
    assert "metadata" not in data


def test_an_empty_delta_is_no_frame() -> None:
    assert emit(content("")) == b""


def test_a_frame_without_id_leaves_the_readers_cursor_alone() -> None:
    frame: Frame = {"type": "CUSTOM", "name": "varve.gap", "value": {}}
    assert emit(Numbered(None, frame)).startswith(b"data: ")


def test_a_snapshot_of_a_monstrous_session_keeps_the_newest() -> None:
    messages = [Message(str(n), Role.USER, "x" * 900_000) for n in range(4)]
    assert [message.id for message in bounded(messages)] == ["2", "3"]
    assert bounded(messages[:1]) == messages[:1]
