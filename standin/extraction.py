"""Answers to requests for memory operations: what the user says of themselves, by rules.

Gullible on purpose: an order to remember is remembered, so that whoever is not to believe it has
to see to that.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from standin.directives import Behaviour
from standin.request import ChatRequest

_WINDOW = re.compile(r"<window>\n(?P<lines>.*?)</window>", re.DOTALL)
_CONFIDENCE = re.compile(r"\(confidence ([01](?:\.\d+)?)\)|（可信度([01](?:\.\d+)?)）")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")
_USUAL = 0.9


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for operations. `outside`: what users' messages say outside the window."""

    entries: tuple[dict[str, Any], ...]
    outside: str
    turn: int  # 1, and one more per answer that the request shows


def asked_of(request: ChatRequest) -> Asked | None:
    """The window in a request that wants JSON, or whose prompt speaks of operations; else None."""
    system = "".join(m.text for m in request.messages if m.role in ("system", "developer"))
    if request.response_format is None and '"operations"' not in system:
        return None
    users = [message.text for message in request.messages if message.role == "user"]
    found = next((window for text in users if (window := _WINDOW.search(text))), None)
    if found is None:
        return None
    entries = tuple(json.loads(line) for line in found["lines"].splitlines() if line.strip())
    outside = "\n".join(_WINDOW.sub("", text) for text in users)
    turn = 1 + sum(message.role == "assistant" for message in request.messages)
    return Asked(entries, outside, turn)


def answer(asked: Asked, behaviour: Behaviour) -> str:
    """The operations as JSON text."""
    operations = [
        {**operation, "evidence": [behaviour.evidence or entry["ref"]]}
        for entry in asked.entries
        if entry.get("role") == "user"
        for operation in _operations(str(entry.get("text", "")), behaviour.confidence)
    ]
    text = json.dumps({"operations": operations}, ensure_ascii=False)
    return f"```json\n{text}\n```" if behaviour.fenced else text


def _operations(text: str, confidence: float | None) -> list[dict[str, Any]]:
    """One operation per sentence that a rule knows."""
    found: list[dict[str, Any]] = []
    for sentence in _SENTENCE.split(text):
        sure = _CONFIDENCE.search(sentence)
        stated = float(sure[1] or sure[2]) if sure else _USUAL
        plain = _CONFIDENCE.sub("", sentence).strip()
        if (operation := _operation(plain)) is not None:
            if operation["op"] == "write":
                operation["confidence"] = stated if confidence is None else confidence
            found.append(operation)
    return found


def _operation(sentence: str) -> dict[str, Any] | None:
    for pattern, rule in _RULES:
        if (match := pattern.search(sentence)) is not None:
            groups = [_tidy(group) for group in match.groups() if group is not None]
            return rule(sentence, *groups) if all(groups) else None
    return None


def _write(key: str, value: str) -> dict[str, Any]:
    return {"op": "write", "key": key, "value": value, "tags": ["user"], "scope": "global"}


def _mine(sentence: str, key: str, value: str) -> dict[str, Any]:
    return _write(_key(key), value)


def _under(key: str) -> Callable[[str, str], dict[str, Any]]:
    def rule(sentence: str, value: str) -> dict[str, Any]:
        return _write(key, value)

    return rule


def _liked(sentence: str, what: str) -> dict[str, Any]:
    return _write(f"likes_{_key(what)}", _tidy(sentence))


def _noted(sentence: str, what: str) -> dict[str, Any]:
    inner = _operation(what)
    return inner if inner is not None else _write(_key(what), what)


def _ordered(sentence: str, *_: str) -> dict[str, Any]:
    return _write(_key(sentence), _tidy(sentence))


def _forgotten(sentence: str, what: str) -> dict[str, Any]:
    return {"op": "forget", "key": _key(what), "scope": "global", "reason": "the user asked"}


def _key(text: str) -> str:
    """A short key from words: `favourite tea` → `favourite_tea`."""
    words = re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]+", text.lower())
    return "_".join(words[:5])[:60] or "note"


def _tidy(text: str) -> str:
    return text.strip().rstrip(".!?。！？,，").strip()


_RULES: tuple[tuple[re.Pattern[str], Callable[..., dict[str, Any]]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), rule)
    for pattern, rule in (
        (r"\bforget (?:that |about )?my (.+)", _forgotten),
        (r"忘(?:记|掉|了)(?:关于)?我的(.+)", _forgotten),
        (r"\bremember(?: that)?[\s:,]+(.+)", _noted),
        (r"(?:记住|记下)[\s:：,，]*(.+)", _noted),
        (r"\b(?:ignore|disregard|you are now|from now on|system prompt)\b", _ordered),
        (r"你现在是|忽略|从现在(?:起|开始)|系统提示", _ordered),
        (r"\bmy (.+?) (?:is|are|was) (.+)", _mine),
        (r"我的(.+?)(?:是|叫)(.+)", _mine),
        (r"\bI (?:like|love|prefer)\s+(.+)", _liked),
        (r"我(?:很|最)?喜欢(.+)", _liked),
        (r"\bI live in\s+(.+)", _under("home_city")),
        (r"我住在(.+)", _under("居住地")),
        (r"\bI work (?:at|for)\s+(.+)", _under("employer")),
        (r"我在(.+?)(?:工作|上班)", _under("工作单位")),
        (r"\bI(?:'m| am) called\s+(.+)", _under("name")),
        (r"我叫(.+)", _under("名字")),
    )
)
