"""The encoder's laws, over any run that can be: whatever is lost, nothing is wrong in the end."""

from typing import Any

from ag_ui.core import events as ag
from ag_ui_validate import create_validator
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from domain.events import TurnStarted
from domain.messages import Role
from tests.api.checks import models
from tests.domain.agui_runs import MadeRun, client_of, runs

_ag_event: TypeAdapter[Any] = TypeAdapter(ag.Event)


@given(runs(), st.data())
def test_a_reader_that_comes_back_is_told_exactly_the_rest(
    run: MadeRun, data: st.DataObject
) -> None:
    whole = run.frames()
    cut = data.draw(st.integers(0, len(whole)))
    first = whole[:cut]
    cursor = first[-1].id if first else -1
    assert cursor is not None
    assert first + run.frames(cursor=cursor) == whole


@given(runs(), st.data())
def test_ids_strictly_increase_whatever_is_lost(run: MadeRun, data: st.DataObject) -> None:
    lost = data.draw(_subsets(run.deltas))
    ids = [one.id for one in run.frames(lost=lost) if one.id is not None]
    assert ids == sorted(set(ids))


@given(runs(), st.data(), st.booleans())
def test_everything_that_starts_is_closed_before_the_one_terminal_frame(
    run: MadeRun, data: st.DataObject, modern: bool
) -> None:
    lost = data.draw(_subsets(run.deltas))
    client = client_of(run.frames(lost=lost, modern=modern))
    assert client.terminal is not None


@given(runs(), st.data())
def test_the_final_text_is_right_with_any_deltas_lost(run: MadeRun, data: st.DataObject) -> None:
    client = client_of(run.frames(lost=data.draw(_subsets(run.deltas))))
    assert _said(client.messages.values()) >= _stored(run)
    superseded = {i.event.supersedes for i in run.items if isinstance(i.event, TurnStarted)}
    assert not superseded & client.messages.keys()


@given(runs(), st.data())
def test_a_reader_that_comes_back_to_a_lossy_stream_ends_up_right_too(
    run: MadeRun, data: st.DataObject
) -> None:
    """Deltas are lost before and after it comes back, at the last id it was given."""
    first = run.frames(lost=data.draw(_subsets(run.deltas)))
    first = first[: data.draw(st.integers(0, len(first)))]
    cursor = max((one.id for one in first if one.id is not None), default=-1)
    rest = run.frames(cursor=cursor, lost=data.draw(_subsets(run.deltas)))
    assert _said(client_of(first + rest).messages.values()) >= _stored(run)


@given(runs(), st.booleans())
def test_frames_are_ag_ui_and_nothing_else(run: MadeRun, modern: bool) -> None:
    for one in run.frames(modern=modern):
        for model in models(_ag_event.validate_python(one.frame)):
            assert not model.model_extra


@given(runs(), st.booleans())
def test_the_validator_finds_nothing(run: MadeRun, modern: bool) -> None:
    validator = create_validator()
    for one in run.frames(modern=modern):
        frame = one.frame
        if frame.get("delta") != "":
            validator.feed(frame)
    validator.finalize()
    report = validator.report()
    assert [d for d in report.diagnostics if d.severity == "error"] == []


def _subsets(places: list[int]) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.sampled_from(places)) if places else st.just(frozenset[int]())


def _said(messages: Any) -> set[tuple[str, str]]:
    return {(m["id"], m.get("content", "")) for m in messages}


def _stored(run: MadeRun) -> set[tuple[str, str]]:
    """An answer that is neither text nor calls is no message to a client."""
    return {
        (m.id, m.content)
        for m in run.conversation
        if m.content or m.tool_calls or m.role is not Role.ASSISTANT
    }
