"""Words of a text: those it is found by, and those that a question asks for.

Latin text is cut at what joins words; an identifier (INV-2024-0042, user_id, v1.2.3, an e-mail
address) is kept whole as well as in its parts. Chinese is segmented, and kept in single characters
and pairs besides, so that a name or a word no dictionary has is found. All of it NFKC, casefolded.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

import rjieba

MOST_STORED = 2_000  # words of one field; the rest is not looked at
MOST_ASKED = 32  # of a question
_LONGEST = 80  # characters of a word

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_RUNS = re.compile(
    rf"(?P<cjk>[{_CJK}]+)"
    rf"|(?P<word>[^\W_{_CJK}]+(?:[._\-@:/+#&]+[^\W_{_CJK}]+)*(?:\+\+|\#)?)"
)
_JOINS = re.compile(r"[._\-@:/+#&]+")
# Taken out of a question in Chinese before it is cut into pairs.
_FILLERS = re.compile(
    "你知道|知道|关于|记得|告诉|什么|怎么样|怎么|怎样|哪里|哪些|哪个|哪儿|一下|多少|为什么|是不是|有没有|可以|能不能"
    "|请问|帮我|的话|谁|我|你|您|的|吗|呢|吧|了|是|们|在|有|和|与|把|被|请|也|都|就|还|又|很|这|那|个|哪|几"
)
_SURNAMES = re.compile(
    rf"(?:姓|[老小阿])([{_CJK}])|([{_CJK}])(?:先生|女士|小姐|太太|老师|教授|医生|总|经理|同学|师傅|哥|姐)"
)
_FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a about all am an and any anything are as at be been by can could d did do does
        everything for from had has have he her his how i if in into is it its just know like
        likes liked ll m me
        mine my no not of on or our please re remember s she so some t tell than that the their
        them then there these they this those to us user users ve was we were what when where
        which who whom whose why will with would you your yours""",
    )
)


def stored(text: str) -> list[str]:
    """The words that a text is found by, each once."""
    return _once(_stored(_plain(text)), MOST_STORED)


def asked(query: str) -> list[str]:
    """The words that a question asks for, each once; none if it has only function words."""
    return _once(_asked(_plain(query)), MOST_ASKED)


def _stored(text: str) -> Iterator[str]:
    for run in _RUNS.finditer(text):
        if run["cjk"]:
            yield from rjieba.cut_for_search(run["cjk"])
            yield from run["cjk"]
            yield from _pairs(run["cjk"])
        else:
            yield from _forms(run["word"])


def _asked(text: str) -> Iterator[str]:
    for run in _RUNS.finditer(text):
        if run["cjk"]:
            yield from _asked_chinese(run["cjk"])
        else:
            yield from (form for form in _forms(run["word"]) if form not in _FUNCTION_WORDS)


def _asked_chinese(run: str) -> Iterator[str]:
    for part in _FILLERS.sub(" ", run).split():
        yield from rjieba.cut_for_search(part) if len(part) > 1 else [part]
        yield from _pairs(part)
    for surname in _SURNAMES.finditer(run):
        name = surname[1] or surname[2]
        if not _FILLERS.fullmatch(name):
            yield name


def _forms(word: str) -> Iterator[str]:
    """A word as it is, in its parts, without its plural s and without its accents."""
    parts = [part for part in _JOINS.split(word) if len(part) > 1]
    for form in dict.fromkeys((word, *parts)):
        yield form
        stem = _stem(form)
        if stem != form:
            yield stem
        bare = _bare(stem)
        if bare != stem:
            yield bare


def _stem(word: str) -> str:
    if len(word) > 3 and word.endswith("s") and word[-2] != "s" and word.isalpha():
        return word[:-1]
    return word


def _bare(word: str) -> str:
    """Müller, Muller. Only what NFKD takes apart; ø and ß stay as they are."""
    if word.isascii():
        return word
    apart = unicodedata.normalize("NFKD", word)
    return "".join(character for character in apart if not unicodedata.combining(character))


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)]


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _once(words: Iterable[str], most: int) -> list[str]:
    kept: dict[str, None] = {}
    for word in words:
        if len(word) <= _LONGEST:
            kept[word] = None
        if len(kept) >= most:
            break
    return list(kept)
