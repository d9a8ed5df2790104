"""Words of a text and of a question: identifiers, names, Chinese."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.words import MOST_ASKED, MOST_STORED, asked, stored


@pytest.mark.parametrize(
    "identifier", ["INV-2024-0042", "user_id", "v1.2.3", "ada.l@example.org", "C++", "a/b-c"]
)
def test_an_identifier_is_kept_whole_in_texts_and_in_questions(identifier: str) -> None:
    for words in (stored(f"about {identifier}, and more"), asked(f"What is {identifier}?")):
        assert identifier.casefold() in words


def test_its_parts_are_words_too() -> None:
    assert {"inv", "2024", "0042"} <= set(stored("INV-2024-0042"))


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("rides a bicycle", "Which BICYCLES?"),
        ("Ms. Okonkwo's budget", "okonkwo"),
        ("Frau Müller", "muller"),
        ("Frau Müller", "MÜLLER"),
        ("ＡＢＣ１２３", "abc123"),
        ("喜欢喝绿茶", "绿茶"),
        ("王明负责采购", "姓王的是谁"),
        ("王明负责采购", "王先生"),
        ("叫欧阳娜娜", "欧阳"),
        ("住在杭州", "我住哪里"),
        ("東京タワー", "タワー"),
    ],
)
def test_a_question_shares_a_word_with_what_answers_it(text: str, question: str) -> None:
    assert set(stored(text)) & set(asked(question))


@pytest.mark.parametrize(
    "question", ["what do you know about me?", "你知道关于我什么？", "", "?!", "Who was it?"]
)
def test_function_words_alone_ask_for_nothing(question: str) -> None:
    assert asked(question) == []


@given(st.text())
def test_any_text_has_bounded_words_each_once(text: str) -> None:
    for words, most in ((stored(text), MOST_STORED), (asked(text), MOST_ASKED)):
        assert len(words) == len(set(words)) <= most


@given(st.text(max_size=60))
def test_what_a_text_is_asked_by_is_in_it_save_for_surnames(text: str) -> None:
    latin = [word for word in asked(text) if word.isascii()]
    assert set(latin) <= set(stored(text))
