"""Counting and cutting by tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import tokens

TEXTS = st.text(alphabet="ab 你好😀\n", max_size=400)


def test_a_count_is_the_encodings_own() -> None:
    assert tokens.count("") == 0
    assert tokens.count("hello world") == 2


def test_special_tokens_in_a_text_are_text() -> None:
    assert tokens.count("<|endoftext|>") > 1


@given(TEXTS, st.integers(0, 100))
def test_what_is_kept_are_both_ends_and_no_more_than_the_limit(text: str, limit: int) -> None:
    cut = tokens.cut(text, limit)
    if cut is None:
        assert tokens.count(text) <= limit
        return
    assert tokens.count(text) == cut.tokens > limit
    assert text.startswith(cut.head)
    assert text.endswith(cut.tail)
    assert tokens.count(cut.head) + tokens.count(cut.tail) <= limit


@pytest.mark.parametrize("unit", ["a", " ", "\n", "好", "words and words ", "0123456789abcdef"])
def test_five_megabytes_of_anything_are_estimated_and_cut(unit: str) -> None:
    text = unit * (5_000_000 // len(unit))
    cut = tokens.cut(text, 1_000)
    assert cut is not None
    assert not cut.exact
    assert tokens.count(cut.head + cut.tail) <= 1_000
    exact = tokens.count(text[:60_000]) * len(text) / 60_000
    assert 0.9 * exact <= cut.tokens <= 1.1 * exact
