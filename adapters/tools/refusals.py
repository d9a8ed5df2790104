"""What the model reads of calls that were refused, or could not be carried out."""

import json
from collections.abc import Mapping

from pydantic import ValidationError

from domain.errors import InvalidInput
from domain.text import clean
from domain.tools import MAX_CALLS, Denier, ToolCall, ToolKind, ToolResult, ToolSpec, ToolStatus

_REFUSALS: Mapping[Denier, str] = {
    Denier.DECLARED: "this run did not declare the tool",
    Denier.PROFILE: "the profile's allowlist does not admit the tool",
    Denier.SYSTEM: "the operator's system allowlist does not admit the tool",
    Denier.PERSON: "a person did not let this call run",
    Denier.LIMIT: f"only the first {MAX_CALLS} calls of a turn are carried out",
}
_REASON_CHARACTERS = 2_000
_LISTED_ERRORS = 8
_WHOLE = "arguments"  # what an error is about when it is about no single field


def denied(call: ToolCall, by: Denier) -> ToolResult:
    """The result of a call that a list refused, or that was one too many."""
    if by is Denier.LIMIT:
        return failed(call, _REFUSALS[by])
    return _refusal(call, ToolStatus.DENIED, f"{_REFUSALS[by]} ({by} list)")


def refused(call: ToolCall, reason: str) -> ToolResult:
    """The result of a call that a person did not let run."""
    return _refusal(call, ToolStatus.DENIED, reason)


def missing(call: ToolCall) -> ToolResult:
    """The result of a call by a name that nobody registered: misspelt, perhaps, or made up."""
    return failed(call, f"there is no tool called {call.name[:100]!r}")


def failed(call: ToolCall, reason: str) -> ToolResult:
    """The result of a call that could not be carried out."""
    return _refusal(call, ToolStatus.ERROR, reason)


def _refusal(call: ToolCall, status: ToolStatus, reason: str) -> ToolResult:
    reason = clean(reason)
    if len(reason) > _REASON_CHARACTERS:
        reason = reason[: _REASON_CHARACTERS - 1] + "…"
    content = json.dumps({"status": status, "reason": reason}, ensure_ascii=False)
    return ToolResult(call.id, call.name, status, content, reason)


def told(error: Exception) -> str:
    return f"{error.field}: {error}" if isinstance(error, InvalidInput) else str(error)


def timed_out(spec: ToolSpec) -> str:
    effect = "" if spec.kind is ToolKind.READ else "; it may or may not have taken effect"
    return f"{spec.name} did not finish within {spec.timeout_s:g} s{effect}"


def explained(error: ValidationError) -> str:
    """Field and rule of what is wrong, without repeating the input."""
    wrong = error.errors(include_url=False, include_context=False, include_input=False)
    said = [
        f"{'.'.join(str(part)[:60] for part in e['loc']) or _WHOLE}: {e['msg']} ({e['type']})"
        for e in wrong[:_LISTED_ERRORS]
    ]
    more = len(wrong) - len(said)
    return "invalid arguments: " + "; ".join(said) + (f"; and {more} more" if more else "")
