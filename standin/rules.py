"""What the stand-in says and which tool it calls: plain rules over the last user message."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from standin.directives import Behaviour, ToolUse
from standin.extraction import answer as memory_operations
from standin.extraction import asked_of
from standin.request import ChatMessage, ChatRequest
from standin.sums import about_dates, calculate

_FENCE = re.compile(r"<(?P<tag>\w+)[^>]*>(?P<inside>.*)</(?P=tag)>", re.DOTALL)
_QUOTED = 600  # characters of one tool result that an answer quotes
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_FILLER = ("sediment ", "settles ", "in ", "layers ", "and ", "each ", "year ", "adds ", "one, ")


@dataclass(frozen=True, slots=True)
class Plan:
    """One answer: pieces of text (one chunk and one token each), then tool calls."""

    pieces: tuple[str, ...]
    calls: tuple[ToolUse, ...]
    finish: str


def last_user_text(request: ChatRequest) -> str:
    return next((m.text for m in reversed(request.messages) if m.role == "user"), "")


def turn_of(request: ChatRequest) -> int:
    """Which model call since the user's message this is, from 1."""
    turn = 1
    for message in reversed(request.messages):
        if message.role == "user":
            break
        turn += message.role == "assistant"
    return turn


def plan(request: ChatRequest, said: str, behaviour: Behaviour) -> Plan:
    """The answer to `request`, whose last user message without directives is `said`."""
    if behaviour.empty:
        return Plan((), (), behaviour.finish or "stop")
    results = _results(request.messages)
    calls = _calls(request, said, behaviour, answered=bool(results))
    pieces = _pieces(request, said, behaviour, results, calls)
    finish = "tool_calls" if calls else "stop"
    if request.limit is not None and len(pieces) > request.limit:
        pieces, calls, finish = pieces[: request.limit], (), "length"
    return Plan(pieces, calls, behaviour.finish or finish)


def _calls(
    request: ChatRequest, said: str, behaviour: Behaviour, *, answered: bool
) -> tuple[ToolUse, ...]:
    # A loop still answers once it is offered no tools, as the last turn of a run does.
    again = bool(request.offered) if behaviour.loop else not answered
    if not again:
        return ()
    calls = behaviour.calls
    if not calls and behaviour.two_calls and request.offered:
        calls = (ToolUse(request.offered[0], "{}"), ToolUse(request.offered[-1], "{}"))
    if not calls and (wish := _wish(said)) is not None and wish.name in request.offered:
        calls = (wish,)
    if behaviour.bad_args:
        calls = tuple(ToolUse(call.name, call.arguments[:-1]) for call in calls)
    if behaviour.empty_args:
        calls = tuple(ToolUse(call.name, "") for call in calls)
    return calls


def _pieces(
    request: ChatRequest,
    said: str,
    behaviour: Behaviour,
    results: Sequence[tuple[str, str]],
    calls: tuple[ToolUse, ...],
) -> tuple[str, ...]:
    if behaviour.tokens is not None:
        return filler(behaviour.tokens)
    if behaviour.say is not None:
        return split(behaviour.say)
    if calls:
        return ()
    if (extraction := asked_of(request)) is not None:
        return split(memory_operations(extraction, behaviour))
    return split(_from_results(results) if results else _answer(request, said))


def filler(count: int) -> tuple[str, ...]:
    """`count` words, one token each, always the same."""
    return tuple(_FILLER[index % len(_FILLER)] for index in range(count))


def split(text: str) -> tuple[str, ...]:
    """A text in the pieces it is streamed in: words, and one Chinese character at a time."""
    return tuple(re.findall(r"[\u4e00-\u9fff]\s*|[^\s\u4e00-\u9fff]+\s*|\s+", text))


def _results(messages: Sequence[ChatMessage]) -> list[tuple[str, str]]:
    """(tool, content) of the results that end the conversation; empty if it ends otherwise."""
    contents: list[tuple[str, str]] = []
    for message in reversed(messages):
        if message.role == "tool":
            contents.append((message.tool_call_id or "", message.text))
            continue
        names = {call.id: call.function.name for call in message.tool_calls or ()}
        return [(names[call_id], content) for call_id, content in reversed(contents)]
    return []


def _bare(content: str) -> str:
    """A result without the one tag that a runtime may have put around it."""
    fenced = _FENCE.fullmatch(content.strip())
    return fenced["inside"].strip() if fenced else content


def _from_results(results: Sequence[tuple[str, str]]) -> str:
    lines = (f"{name} answered: {_bare(content)[:_QUOTED]}" for name, content in results)
    return "\n".join(lines)


def _answer(request: ChatRequest, said: str) -> str:
    chinese = bool(_CHINESE.search(said))
    wish = _wish(said)
    if wish is not None:  # it was not offered, or it would have been called
        if chinese:
            return f"我想调用 {wish.name}，但这次请求没有提供这个工具。"
        return f"I would call {wish.name} for this, but the request does not offer it."
    if (answer := about_dates(said, chinese=chinese) or calculate(said)) is not None:
        return answer
    if chinese:
        return f"你好！我是替身服务器，不是语言模型。你说的是：{said}"
    return f"Hello! I am a stand-in, not a language model. You said: {said}"


def _wish(said: str) -> ToolUse | None:
    """The tool that a message asks for, offered or not. The first rule that matches decides."""
    for pattern, rule in _RULES:
        if (found := pattern.search(said)) is not None:
            name, arguments = rule(*(group for group in found.groups() if group is not None))
            return ToolUse(name, json.dumps(arguments, ensure_ascii=False))
    return None


Wish = tuple[str, dict[str, object]]


def _forget(what: str) -> Wish:
    key = _key(re.sub(r"^(?:my|the|我的?|关于)\s*", "", _tidy(what), flags=re.IGNORECASE))
    return "memory_forget", {"key": key, "reason": "the user asked"}


def _write(what: str) -> Wish:
    what = _tidy(what)
    pair = re.match(r"my\s+(.+?)\s+(?:is|are|was)\s+(.+)|我的(.+?)(?:是|叫)(.+)", what, re.I | re.S)
    groups = [group for group in pair.groups() if group] if pair else []
    key, value = groups if len(groups) == 2 else (what, what)
    # Tagged, so that "what do you know about me" finds it whatever words it was said in.
    return "memory_write", {"key": _key(key), "value": value, "tags": ["user"]}


def _search(about: str) -> Wish:
    about = _tidy(about)
    return "memory_search", {"query": "user" if about.lower() in ("me", "我") else about}


def _read(path: str) -> Wish:
    return "read_file", {"path": path}


def _write_file(path: str, content: str) -> Wish:
    return "write_file", {"path": path, "content": content}


def _list() -> Wish:
    return "list_files", {}


def _key(text: str) -> str:
    """A short key from words: `favourite tea` → `favourite_tea`."""
    words = re.findall(r"[a-z0-9]+|[\u4e00-\u9fff]+", text.lower())
    return "_".join(words[:5])[:60] or "note"


def _tidy(text: str) -> str:
    return text.strip().rstrip(".!?。！？").strip()


_RULES: tuple[tuple[re.Pattern[str], Callable[..., Wish]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), rule)
    for pattern, rule in (
        (r"what (?:do|did) you (?:know|remember) about (.+)", _search),
        (r"关于(.+?)，?你(?:还)?(?:知道|记得|了解)(?:些|了)?什么", _search),
        (r"你(?:还)?(?:知道|记得|了解)(?:关于)?(.+?)(?:的|些)?什么", _search),
        (r"\bwrite (?:the |a )?file\s+(\S+?)\s*[:：]\s*(.+)", _write_file),
        (r"写入?文件\s*(\S+?)\s*[:：]\s*(.+)", _write_file),
        (r"\bread (?:the )?file\s+(\S+)|读取?文件\s*(\S+)", _read),
        (r"\blist (?:the |my |all )*files\b|列出(?:所有)?文件", _list),
        (r"\bremember(?:\s+that)?[\s:,]+(.+)", _write),
        (r"(?:记住|记下)[\s:：,，]*(.+)", _write),
        (r"\bforget(?:\s+(?:that|about))?[\s:,]+(.+)", _forget),
        (r"忘(?:记|掉|了)[\s:：,，]*(.+)", _forget),
    )
)
