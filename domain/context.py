"""What a model is shown: built by an ordered chain of small functions, then fitted. Pure."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from domain import window
from domain.fences import CONTEXT_FENCE, fenced, sealed
from domain.fitting import fit
from domain.messages import Message, ModelRequest, Role
from domain.profiles import Profile
from domain.recall import NOTHING, Recalled
from domain.remembered import remembered
from domain.tools import ToolLists, ToolSpec, effective

Counter = Callable[[str], int]
"""Tokens of a text."""

FILL = 0.8
"""Share of the model's context window that a call may take."""
_MESSAGE_TOKENS = 4  # what a provider adds to each message, about
_FENCE_TOKENS = 16  # what the marks around a tool's output take, about

FILE_TOOLS = frozenset({"list_files", "read_file", "read_file_chunk", "write_file", "append_file"})
WORKSPACE_RULE = (
    "# Files\nThis session has a folder of its own. Paths are relative to it, like notes/plan.md; "
    "nothing outside it can be reached. What you write stays there for later runs of the session. "
    "List before you guess a name, and read large files in chunks."
)
CLARIFICATION_TOOL = "ask_clarification"
CLARIFICATION_RULE = (
    "# Before anything else\nIf you can't go on without something that only the user knows, call "
    "ask_clarification with one question, alone, and do nothing else in that turn. If a sensible "
    "assumption is possible, make it and say so instead of asking."
)
NO_MORE_TURNS = (
    "This is the last step of the run and no tools are left. Answer now with what you have, and "
    "say plainly what is missing or was not done."
)
ORDER = (
    "session_data",
    "uploads",
    "workspace",
    "repair",
    "summarization",
    "todo_list",
    "title",
    "memory",
    "fact_data",
    "images",
    "modules_and_tools",
    "subagent_limits",
    "acceptance",
    "clarification",
)
"""The order of all links, those to come as well. Clarification is last, acceptance before it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A piece of the system prompt. Nothing in it changes from one run to the next."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ContextInput:
    """All that a context is made from.

    `messages`: the session's, oldest first, at least the profile's window of it, the current
    message included. `today`, `timezone` and `locale` are the user's; all turns of a run pass the
    same day, or the provider's cache is lost. `closing`: set for a last call without tools; says
    why there are none.
    """

    profile: Profile
    model: str  # the name to call: the profile's first choice or a fallback
    prompt: str  # the stable prefix
    messages: tuple[Message, ...]
    specs: Mapping[str, ToolSpec]
    lists: ToolLists
    today: date
    timezone: str
    locale: str
    context_tokens: int  # what the model's context window holds
    count: Counter
    app: tuple[tuple[str, str], ...] = ()  # (description, value) pairs from the client
    include_hidden: bool = False
    closing: str | None = None
    recalled: Recalled = NOTHING  # of what is remembered about the user

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """declared ∩ profile ∩ system."""
        return effective(self.specs, self.lists)


@dataclass(frozen=True, slots=True)
class Draft:
    """A context in the making. `situation`: what changes, kept out of the stable prefix."""

    layers: tuple[Layer, ...]
    messages: tuple[Message, ...]
    situation: tuple[str, ...] = ()
    fact_ids: tuple[str, ...] = ()
    tools: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class LayerSeen:
    name: str
    digest: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What the model saw, for the record. Tokens are counted before the provider does."""

    message_ids: tuple[str, ...]
    tool_names: tuple[str, ...]
    layers: tuple[LayerSeen, ...]
    system_tokens: int
    tool_tokens: int
    message_tokens: int
    shortened: tuple[str, ...] = ()  # ids of tool messages whose output was shrunk
    dropped: tuple[str, ...] = ()  # ids of messages of the window that did not fit
    fact_ids: tuple[str, ...] = ()
    module_ids: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        return self.system_tokens + self.tool_tokens + self.message_tokens

    def document(self) -> dict[str, Any]:
        """As it is kept with the model call, in JSON's types."""
        return {
            "messages": list(self.message_ids),
            "tools": list(self.tool_names),
            "layers": [
                {"name": x.name, "digest": x.digest, "tokens": x.tokens} for x in self.layers
            ],
            "tokens": {
                "system": self.system_tokens,
                "tools": self.tool_tokens,
                "messages": self.message_tokens,
            },
            "shortened": list(self.shortened),
            "dropped": list(self.dropped),
            "facts": list(self.fact_ids),
            "modules": list(self.module_ids),
        }


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call ready to be made, and the record of what is in it."""

    request: ModelRequest
    seen: Seen


Link = Callable[[Draft, ContextInput], Draft]


def session_data(draft: Draft, given: ContextInput) -> Draft:
    """The user's day and language, and what the app says about itself."""
    about = [
        f"Today is {given.today:%A}, {given.today.isoformat()} (time zone {given.timezone}).",
        f"The user's locale is {given.locale}.",
        *(f"{description}: {value}" for description, value in given.app),
    ]
    return replace(draft, situation=(*draft.situation, *about))


def workspace(draft: Draft, given: ContextInput) -> Draft:
    """Say that there are files, if any tool reaches them."""
    if given.closing or not FILE_TOOLS & {spec.name for spec in given.tools}:
        return draft
    return _layered(draft, "workspace", WORKSPACE_RULE)


def repair(draft: Draft, given: ContextInput) -> Draft:
    return replace(draft, messages=window.repair(draft.messages))


def memory(draft: Draft, given: ContextInput) -> Draft:
    """What is remembered and bears on the current message, or that nobody could look."""
    lines = remembered(given.recalled)
    fact_ids = tuple(str(found.fact.id) for found in given.recalled.found)
    return replace(draft, situation=(*draft.situation, *lines), fact_ids=fact_ids)


def modules_and_tools(draft: Draft, given: ContextInput) -> Draft:
    """Show the tools that may be used; none on a last call, and say why."""
    if given.closing:
        return replace(draft, tools=(), situation=(*draft.situation, given.closing))
    return replace(draft, tools=given.tools)


def clarification(draft: Draft, given: ContextInput) -> Draft:
    if not any(spec.name == CLARIFICATION_TOOL for spec in draft.tools):
        return draft
    return _layered(draft, "clarification", CLARIFICATION_RULE)


CHAIN: tuple[Link, ...] = (
    session_data,
    workspace,
    repair,
    memory,
    modules_and_tools,
    clarification,
)
"""The links there are, by the names and in the order of ORDER."""


def build(given: ContextInput) -> Prepared:
    """Run the chain over the window, then make the result fit 80 % of the model's context."""
    history = window.cut(
        given.messages, given.profile.window_user_messages, include_hidden=given.include_hidden
    )
    draft = Draft(layers=(Layer("prompt", given.prompt),), messages=history)
    for link in CHAIN:
        draft = link(draft, given)
    note = fenced(CONTEXT_FENCE, "\n".join(draft.situation))
    seen = _weighed(draft, note, given)
    fitted = fit(
        draft.messages,
        room=int(given.context_tokens * FILL) - seen.tokens,
        limit=given.context_tokens - given.profile.limits.max_output_tokens - seen.tokens,
        measure=lambda message: _message_tokens(message, given.count),
    )
    return Prepared(
        request=_request(draft, fitted.messages, note, given),
        seen=replace(
            seen,
            message_ids=tuple(message.id for message in fitted.messages),
            message_tokens=seen.message_tokens + fitted.tokens,
            shortened=fitted.shortened,
            dropped=fitted.dropped,
        ),
    )


def _weighed(draft: Draft, note: str, given: ContextInput) -> Seen:
    """The record of everything but the conversation, which has to fit into what is left."""
    layers = tuple(LayerSeen(x.name, _digest(x.text), given.count(x.text)) for x in draft.layers)
    return Seen(
        message_ids=(),
        tool_names=tuple(spec.name for spec in draft.tools),
        layers=layers,
        system_tokens=sum(layer.tokens for layer in layers),
        tool_tokens=sum(_tool_tokens(spec, given.count) for spec in draft.tools),
        message_tokens=given.count(note) + _MESSAGE_TOKENS,
        fact_ids=draft.fact_ids,
    )


def _request(
    draft: Draft, messages: tuple[Message, ...], note: str, given: ContextInput
) -> ModelRequest:
    shown = sealed(messages)
    # Before the current message, not in the prefix: what changes from day to day must not cost
    # the provider's cache of the history, and the turns of one run all share it here.
    users = [i for i, message in enumerate(messages) if message.role is Role.USER]
    shown.insert(users[-1] if users else 0, Message(CONTEXT_FENCE, Role.USER, note))
    return ModelRequest(
        model=given.model,
        system="\n\n".join(layer.text for layer in draft.layers if layer.text),
        messages=tuple(shown),
        tools=draft.tools,
        max_output_tokens=given.profile.limits.max_output_tokens,
        thinking=given.profile.model.thinking,
    )


def _layered(draft: Draft, name: str, text: str) -> Draft:
    return replace(draft, layers=(*draft.layers, Layer(name, text)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _message_tokens(message: Message, count: Counter) -> int:
    calls = sum(count(call.name) + count(call.arguments) for call in message.tool_calls)
    fence = _FENCE_TOKENS if message.role in (Role.TOOL, Role.SYSTEM) else 0
    return count(message.content) + calls + fence + _MESSAGE_TOKENS


def _tool_tokens(spec: ToolSpec, count: Counter) -> int:
    schema = json.dumps(spec.parameters, ensure_ascii=False, default=dict)
    return count(spec.name) + count(spec.description) + count(schema) + _MESSAGE_TOKENS
