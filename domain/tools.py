"""What a tool is, and who may call it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ToolKind(StrEnum):
    READ = "read"
    WRITE = "write"
    DISPATCH = "dispatch"
    INTERACTION = "interaction"


class Risk(StrEnum):
    LOW = "low"
    HIGH = "high"


class ToolStatus(StrEnum):
    OK = "ok"
    ERROR = "error"
    DENIED = "denied"


class Denier(StrEnum):
    """Which of the three lists refused a call, or that the turn had too many, or a person."""

    DECLARED = "declared"
    PROFILE = "profile"
    SYSTEM = "system"
    LIMIT = "limit"
    PERSON = "person"


MAX_CALLS = 128
"""Calls of one turn that are carried out; the model reads that the others were not."""

ALL = "*"
"""An entry that admits every tool that is not off by default."""

ToolList = tuple[str, ...] | None
"""One of the three lists. None = absent (each list documents its default), () = nothing."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One declaration, from which schema, validation, docs and labels all come."""

    name: str
    description: str
    parameters: Mapping[str, Any]  # JSON Schema of the arguments
    kind: ToolKind
    risk: Risk = Risk.LOW
    idempotent: bool = True
    parallel_safe: bool = True
    owner_scoped: bool = True
    off_by_default: bool = False  # runs only if the system list names it
    quick: bool = False  # only touches our own database, in milliseconds
    result_tokens: int = 8_000
    timeout_s: float = 30.0
    asks: bool = False  # a person may be asked before it runs, or instead of running it


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str  # JSON text as the model wrote it; parsed and validated when it is called


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the model reads. A tool's own mistake is a result, never an exception."""

    call_id: str
    name: str
    status: ToolStatus
    content: str
    reason: str | None = None  # for errors and denials, in words


@dataclass(frozen=True, slots=True)
class ToolLists:
    """The three lists that bound a run's tools.

    declared: what the request or job asked for; absent = everything registered.
    profile: the profile's allowlist, with the executor's default already put in for absent.
    system: the operator's list; absent = everything registered that is not off by default.
    """

    declared: ToolList
    profile: ToolList
    system: ToolList


def authorize(name: str, specs: Mapping[str, ToolSpec], lists: ToolLists) -> Denier | None:
    """Which list refuses this call, in the order declared, profile, system; None if it may run.

    A name that is not registered was never declared.
    """
    spec = specs.get(name)
    if spec is None or not _admits(lists.declared, spec):
        return Denier.DECLARED
    if not _admits(lists.profile, spec):
        return Denier.PROFILE
    if not _admits_system(lists.system, spec):
        return Denier.SYSTEM
    return None


def effective(specs: Mapping[str, ToolSpec], lists: ToolLists) -> tuple[ToolSpec, ...]:
    """declared ∩ profile ∩ system, in registry order: what the model is shown."""
    return tuple(spec for spec in specs.values() if authorize(spec.name, specs, lists) is None)


def unknown_names(entries: Iterable[str], specs: Mapping[str, ToolSpec]) -> tuple[str, ...]:
    """Entries of a list that name no registered tool. They admit nothing; callers report them."""
    return tuple(entry for entry in entries if entry != ALL and entry not in specs)


def _admits(entries: ToolList, spec: ToolSpec) -> bool:
    return entries is None or spec.name in entries or ALL in entries


def _admits_system(entries: ToolList, spec: ToolSpec) -> bool:
    if spec.off_by_default:
        return entries is not None and spec.name in entries
    return _admits(entries, spec)
