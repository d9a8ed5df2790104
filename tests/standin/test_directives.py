"""The little language of directives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standin.directives import BadDirective, Behaviour, ToolUse, parse
from standin.sums import calculate


def behaviour(text: str) -> Behaviour:
    result = Behaviour()
    for directive in parse(text)[1]:
        result = directive.apply(result)
    return result


def test_brackets_inside_arguments_do_not_end_a_directive() -> None:
    plain, _ = parse('a [[standin: call=look args={"a":[[1]]} call=see]] b')
    assert plain == "a  b"
    assert behaviour('[[standin: call=look args={"a":[[1]]} call=see]]').calls == (
        ToolUse("look", '{"a": [[1]]}'),
        ToolUse("see", "{}"),
    )


def test_several_directives_are_merged() -> None:
    both = behaviour("[[standin: tokens=3]] and [[standin: delay_ms=1.5 flush]]")
    assert (both.tokens, both.delay_ms, both.flush) == (3, 1.5, True)


@pytest.mark.parametrize(
    "words", ["tokens=x", "flush=1", "tokens", "args={}", "call=a args={", "?"]
)
def test_a_wrong_value_is_refused(words: str) -> None:
    with pytest.raises(BadDirective):
        parse(f"[[standin: {words}]]")


@given(st.text())
def test_text_without_a_directive_stays_as_it_is(text: str) -> None:
    if "[[standin:" not in text:
        assert parse(text) == (text.strip(), ())


@given(st.text(alphabet="0123456789+-*/%(). ×÷", max_size=300))
def test_no_sum_breaks_the_server(text: str) -> None:
    result = calculate(text)
    assert result is None or " = " in result
