"""The one place where tools are declared, validated and run. Nothing else runs a tool."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar
from uuid import UUID

import asyncpg
import structlog
from pydantic import BaseModel, ConfigDict, ValidationError

from adapters.postgres.pool import LOST
from adapters.tools.output import bounded
from adapters.tools.refusals import denied, explained, failed, missing, timed_out, told
from domain.approvals import approval
from domain.checkpoints import Question
from domain.errors import ErrorCode, InvalidInput, NotFound, OutsideError, Transient
from domain.facts import GLOBAL, Evidence
from domain.tools import (
    ALL,
    Risk,
    ToolCall,
    ToolKind,
    ToolLists,
    ToolResult,
    ToolSpec,
    ToolStatus,
    authorize,
)

_log = structlog.get_logger(__name__)


class ToolError(Exception):
    """A tool could not do what was asked; the text is for the model, which may try again."""


class Arguments(BaseModel):
    """Base of a tool's arguments: nothing is accepted that was not declared."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Secrets = Callable[[str], Awaitable[str | None]]


async def nothing_given(name: str) -> str | None:
    """Nobody gave a secret."""
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """On whose behalf a tool runs. None of it ever comes from the arguments."""

    owner_id: UUID
    run_key: UUID
    session_key: UUID
    idempotency_key: str  # run_id:step:tool_call_id, the same whenever the call is repeated
    source_message_ids: tuple[str, ...]  # evidence by default: the current user message
    workspace: Path  # the session's own folder; need not exist yet
    min_confidence: float = 0.0  # a fact that is less sure is not remembered
    # Of a memory run: what facts may rest on, under which names, what gives only orders, and what
    # of that would take the assistant over.
    admitted: frozenset[Evidence] | None = None  # None: this session, message ids as they are
    references: Mapping[str, Evidence] = field(default_factory=dict[str, Evidence])
    orders: frozenset[Evidence] = frozenset()
    takeovers: frozenset[Evidence] = frozenset()
    secret: Secrets = nothing_given  # what a person gave for this tool in this run, by its name

    def resolve(self, named: Sequence[str]) -> tuple[Evidence, ...]:
        """The messages that a call names as evidence; in a conversation, if it names none, the
        current ones.

        In a memory run these are references of its window. What the assistant said there counts
        for nothing and is left out. Raises ToolError for a stranger, and if nothing is left.
        """
        if self.admitted is None:
            return tuple(Evidence(self.session_key, id) for id in named or self.source_message_ids)
        if strangers := [name for name in named if name not in self.references]:
            raise ToolError(f"evidence: {strangers[0][:100]!r} is not in the window")
        resolved = tuple(dict.fromkeys(self.references[name] for name in named))
        if kept := tuple(each for each in resolved if each in self.admitted):
            return kept
        raise ToolError("evidence: no message of the user's in the window is named")

    def check_scope(self, scope: str) -> None:
        """A memory run is nobody's agent: it keeps what is known of the user. Raises ToolError."""
        if self.admitted is not None and scope != GLOBAL:
            raise ToolError(f"scope: a memory run works on {GLOBAL!r} facts only")


A = TypeVar("A", bound=Arguments)
Run = Callable[[A, ToolContext], Awaitable[str]]
Risky = Callable[[A, ToolContext], Awaitable[str | None]]
Ask = Callable[[A], Question]


@dataclass(frozen=True, slots=True)
class Tool(Generic[A]):
    """A declaration and what it does. `read_on`: how to get at output that was cut.

    `risky`: why this very call needs a person's approval, None if it does not; beside `risk`, which
    is that of every call. `ask`: the call is a question, which is put to people instead of run.
    """

    spec: ToolSpec
    arguments: type[A]
    run: Run[A]
    read_on: str
    risky: "Risky[A] | None" = None
    ask: "Ask[A] | None" = None


def declare(
    name: str,
    description: str,
    arguments: type[A],
    run: Run[A],
    *,
    kind: ToolKind,
    risk: Risk = Risk.LOW,
    idempotent: bool = True,
    parallel_safe: bool = True,
    owner_scoped: bool = True,
    off_by_default: bool = False,
    quick: bool = False,
    result_tokens: int = 8_000,
    timeout_s: float = 30.0,
    read_on: str = "ask for less with narrower arguments",
    risky: Risky[A] | None = None,
    ask: Ask[A] | None = None,
) -> Tool[A]:
    """Declare a tool; its JSON Schema comes from the arguments model."""
    spec = ToolSpec(
        name=name,
        description=description,
        parameters=_schema(arguments),
        kind=kind,
        risk=risk,
        idempotent=idempotent,
        parallel_safe=parallel_safe,
        owner_scoped=owner_scoped,
        off_by_default=off_by_default,
        quick=quick,
        result_tokens=result_tokens,
        timeout_s=timeout_s,
        asks=risk is Risk.HIGH or risky is not None or ask is not None,
    )
    return Tool(spec, arguments, run, read_on, risky, ask)


class Registry:
    """The registered tools by name, in the order given."""

    def __init__(self, tools: Iterable[Tool[Any]]) -> None:
        self._tools: dict[str, Tool[Any]] = {}
        for tool in tools:
            if tool.spec.name in self._tools:
                raise ValueError(f"two tools are called {tool.spec.name}")
            self._tools[tool.spec.name] = tool
        self._specs = MappingProxyType({name: t.spec for name, t in self._tools.items()})

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        return self._specs

    async def dispatch(self, call: ToolCall, lists: ToolLists, context: ToolContext) -> ToolResult:
        """Authorize, validate and run one call. What the model did wrong is a result.

        Raises Transient or Permanent when the world is broken, and nothing else.
        """
        refused_by = authorize(call.name, self._specs, lists)
        tool = self._tools.get(call.name)
        if tool is None:
            return missing(call)
        if refused_by is not None:
            return denied(call, refused_by)
        try:
            arguments = tool.arguments.model_validate_json(call.arguments.strip() or "{}")
        except ValidationError as error:
            return failed(call, explained(error))
        return await self._run(tool, arguments, call, context)

    def wrong(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """What is wrong with arguments that a person gives a call of this tool; None: nothing."""
        tool = self._tools.get(name)
        if tool is None:
            return f"there is no tool called {name[:100]!r}"
        try:
            tool.arguments.model_validate_json(json.dumps(arguments))
        except ValidationError as error:
            return explained(error)
        return None

    def asks_always(self, name: str, listed: Collection[str]) -> bool:
        """Whether each call of this tool needs an approval."""
        spec = self._specs.get(name)
        return spec is not None and (spec.risk is Risk.HIGH or name in listed or ALL in listed)

    async def question(
        self, call: ToolCall, listed: Collection[str], context: ToolContext
    ) -> Question | None:
        """What is to be asked before this call runs, or instead; None: nothing, let it run.

        listed: tools of which every call needs an approval. A call whose arguments are invalid
        asks nothing: it fails when it runs.
        """
        tool = self._tools.get(call.name)
        try:
            if tool is None:
                return None
            arguments = tool.arguments.model_validate_json(call.arguments.strip() or "{}")
            if tool.ask is not None:
                return tool.ask(arguments)
            why = await _why(tool, arguments, listed, context)
        except (ValidationError, ToolError, NotFound, InvalidInput):
            return None
        return None if why is None else approval(call, why)

    async def _run(
        self, tool: Tool[Any], arguments: Arguments, call: ToolCall, context: ToolContext
    ) -> ToolResult:
        deadline = asyncio.timeout(tool.spec.timeout_s)
        try:
            async with deadline:
                output = await tool.run(arguments, context)
        except (ToolError, NotFound, InvalidInput) as error:
            return failed(call, told(error))
        except OutsideError:
            raise
        except Exception as error:
            if deadline.expired():
                return failed(call, timed_out(tool.spec))
            if isinstance(error, (asyncpg.PostgresError, *LOST)):
                message = f"{call.name} could not reach what it works on"
                raise Transient(message, ErrorCode.CONNECTION) from error
            _log.exception("tool_broke", tool=call.name, run_key=str(context.run_key))
            return failed(call, f"{call.name} broke unexpectedly ({type(error).__name__})")
        content = await bounded(output, tool.spec, tool.read_on)
        return ToolResult(call.id, call.name, ToolStatus.OK, content)


async def _why(
    tool: Tool[Any], arguments: Arguments, listed: Collection[str], context: ToolContext
) -> str | None:
    """Why this call needs an approval."""
    if tool.spec.risk is Risk.HIGH:
        return "It can do harm that can't be undone."
    if tool.spec.name in listed or ALL in listed:
        return "Each call of this tool is to be approved."
    return None if tool.risky is None else await tool.risky(arguments, context)


def _schema(arguments: type[Arguments]) -> Mapping[str, Any]:
    """The model's JSON Schema without the titles that Pydantic makes up: they only cost tokens."""
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    for each in schema.get("properties", {}).values():
        each.pop("title", None)
    schema.setdefault("properties", {})
    return schema
