"""`[[standin: …]]` in a user message tells the server how to behave. README.md lists the words."""

import json
import re
from dataclasses import dataclass, fields, replace
from typing import Any

OPEN = "[[standin:"
_WORD = re.compile(r"\s*([a-z_]+)(=?)")
_BARE = re.compile(r"[^\s\]]*")
_DECODER = json.JSONDecoder()


class BadDirective(ValueError):
    """A directive has a word the server does not know, or a value of the wrong kind."""


@dataclass(frozen=True, slots=True)
class ToolUse:
    name: str
    arguments: str  # JSON text


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Everything that can be asked for. Durations in milliseconds except `retry_after`."""

    status: int | None = None
    retry_after: float | None = None  # seconds
    code: str | None = None
    html: bool = False
    stall_after: int | None = None
    cut_after: int | None = None
    error_after: int | None = None
    first_delay_ms: float = 0
    delay_ms: float = 0
    flush: bool = False
    tokens: int | None = None
    say: str | None = None
    calls: tuple[ToolUse, ...] = ()
    loop: bool = False
    bad_args: bool = False
    empty_args: bool = False
    two_calls: bool = False
    missing_ids: bool = False
    finish: str | None = None
    empty: bool = False
    null_content: bool = False
    repeat_final: bool = False
    keepalive: bool = False
    crlf: bool = False
    no_usage: bool = False
    no_done: bool = False
    fenced: bool = False
    evidence: str | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Directive:
    """One directive. `text` is what `times` counts; `turn` is the model call it is for (1, 2, …
    since the user's message), any if None."""

    text: str
    changes: dict[str, Any]
    turn: int | None = None
    times: int | None = None

    def apply(self, behaviour: Behaviour) -> Behaviour:
        return replace(behaviour, **self.changes)


_KINDS: dict[str, type] = {
    field.name: kind
    for field in fields(Behaviour)
    for kind in (bool, int, float, str)
    if field.type == kind or field.type == kind | None
}


def parse(text: str) -> tuple[str, tuple[Directive, ...]]:
    """The text without its directives, and the directives. Raises BadDirective."""
    plain, found, at = "", list[Directive](), 0
    while (start := text.find(OPEN, at)) >= 0:
        plain += text[at:start]
        words, at = _words(text, start + len(OPEN))
        found.append(_directive(text[start:at], words))
    return (plain + text[at:]).strip(), tuple(found)


def directive(words: str) -> Directive:
    """One directive from its words alone, as POST /control takes them. Raises BadDirective."""
    _, found = parse(f"{OPEN} {words}]]")
    return found[0]


def _words(text: str, at: int) -> tuple[list[tuple[str, Any]], int]:
    """The words from `at` on, and the position after the closing brackets."""
    words: list[tuple[str, Any]] = []
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if text.startswith("]]", at):
            return words, at + 2
        word = _WORD.match(text, at)
        if word is None:
            raise BadDirective(f"cannot read the directive at {text[at : at + 20]!r}")
        value, at = _value(text, word.end()) if word[2] else (True, word.end())
        words.append((word[1], value))


def _value(text: str, at: int) -> tuple[Any, int]:
    """A JSON object, array or string, or else everything up to a space or bracket."""
    if text[at : at + 1] in ('"', "{", "["):
        try:
            return _DECODER.raw_decode(text, at)
        except ValueError as error:
            raise BadDirective(f"not JSON: {text[at : at + 40]!r}") from error
    bare = _BARE.match(text, at)
    assert bare is not None  # it matches the empty string
    return bare[0], bare.end()


def _directive(text: str, words: list[tuple[str, Any]]) -> Directive:
    changes: dict[str, Any] = {}
    calls: list[ToolUse] = []
    counts: dict[str, int] = {}
    for name, value in words:
        if name in ("turn", "times"):
            counts[name] = _convert(name, int, value)
        elif name == "call":
            calls.append(ToolUse(str(value), "{}"))
        elif name == "args":
            if not calls:
                raise BadDirective("args without a call before it")
            calls[-1] = ToolUse(calls[-1].name, json.dumps(value, ensure_ascii=False))
        elif name != "id":  # only there to tell two directives apart
            if name not in _KINDS:
                raise BadDirective(f"unknown word {name!r}")
            changes[name] = _convert(name, _KINDS[name], value)
    if calls:
        changes["calls"] = tuple(calls)
    return Directive(text, changes, counts.get("turn"), counts.get("times"))


def _convert(name: str, kind: type, value: object) -> Any:
    if kind is bool:
        if value is not True:
            raise BadDirective(f"{name} takes no value")
        return True
    if not isinstance(value, str):
        raise BadDirective(f"{name} needs a value")
    try:
        return kind(value)
    except ValueError as error:
        raise BadDirective(f"{name}={value} is not a number") from error
