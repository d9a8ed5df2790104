"""The JSON form of an execution profile: what is read, and the one form that is written.

Reading accepts two fields of an earlier generation, so that its profiles keep working:
`enable_router` (ignored) and `history_policy.window: "today_yesterday"` (20 user messages).
Neither is ever written.
"""

import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from domain.errors import InvalidInput
from domain.profiles import Executor, Limits, MemoryPolicy, ModelChoice, Profile

MAX_USER_MESSAGES = 200
OLD_WINDOW_USER_MESSAGES = 20  # what "today_yesterday" is read as

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][\w.:/-]*$")]
Tools = tuple[Annotated[str, Field(min_length=1, max_length=100)], ...]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Model(_Part):
    name: Name
    thinking: Literal["off", "on"] = "off"
    fallback: tuple[Name, ...] = ()


class _History(_Part):
    mode: Literal["last_n_user_messages"] = "last_n_user_messages"
    n: int = Field(default=20, ge=1, le=MAX_USER_MESSAGES)
    include_current_user_message: Literal[True] = True
    window: Literal["today_yesterday"] = Field(default="today_yesterday", exclude=True)


class _Tools(_Part):
    mode: Literal["intersection"] = "intersection"
    # Absent and [] differ, and null is neither: so it is refused. Any: None stands for absent.
    allowlist: Tools = Field(default=None)  # pyright: ignore[reportAssignmentType]
    require_approval: Tools = ()


class _Limits(_Part):
    max_turns: int = Field(default=8, ge=1, le=200)
    turn_budget_tokens: int = Field(default=40_000, ge=1_000, le=2_000_000)
    max_output_tokens: int = Field(default=4_096, ge=16, le=200_000)
    timeout_s: int = Field(default=600, ge=1, le=86_400)
    max_cost_usd: str | None = Field(default=None, max_length=20)
    ask_cost_usd: str | None = Field(default=None, max_length=20)

    @field_validator("max_cost_usd", "ask_cost_usd")
    @classmethod
    def positive(cls, value: str | None) -> str | None:
        try:
            amount = None if value is None else Decimal(value)
        except InvalidOperation:
            raise ValueError('must be a decimal number in a string, like "1.00"') from None
        if amount is not None and not (amount.is_finite() and amount > 0):
            raise ValueError("must be more than 0")
        return value


class _Memory(_Part):
    top_k: int = Field(default=3, ge=0, le=20)
    min_confidence: float = Field(default=0.6, ge=0, le=1)


class _Profile(_Part):
    name: Name
    executor: Executor
    model: _Model
    history_policy: _History = _History()
    tool_policy: _Tools = _Tools()
    limits: _Limits = _Limits()
    prompt: Name | None = None
    memory: _Memory = _Memory()
    enable_router: Any = Field(default=None, exclude=True)


@dataclass(frozen=True, slots=True)
class Reading:
    """A profile as read, and the old fields it still carried, as dotted paths."""

    profile: Profile
    deprecated: tuple[str, ...]


def read(document: str | dict[str, Any]) -> Reading:
    """A profile from JSON text or its parsed form. Raises InvalidInput with the dotted path."""
    text = document if isinstance(document, str) else json.dumps(document)
    try:
        parsed = _Profile.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(path, f"{path or 'profile'}: {first['msg']}") from error
    return Reading(_profile(parsed), _deprecated(parsed))


def load(document: str | dict[str, Any]) -> Profile:
    """`read`, for who has no use for old fields."""
    return read(document).profile


def dump(profile: Profile) -> str:
    """As JSON text, whole and in the new form: `load(dump(p)) == p`."""
    return json.dumps(as_document(profile), ensure_ascii=False)


def as_document(profile: Profile) -> dict[str, Any]:
    """The JSON form, for an API that shows it."""
    policy: dict[str, Any] = {"mode": "intersection"}
    if profile.allowlist is not None:
        policy["allowlist"] = list(profile.allowlist)
    policy["require_approval"] = list(profile.require_approval)
    limits = profile.limits
    return {
        "name": profile.name,
        "executor": profile.executor.value,
        "model": {
            "name": profile.model.name,
            "thinking": "on" if profile.model.thinking else "off",
            "fallback": list(profile.model.fallback),
        },
        "history_policy": {
            "mode": "last_n_user_messages",
            "n": profile.window_user_messages,
            "include_current_user_message": True,
        },
        "tool_policy": policy,
        "limits": {
            "max_turns": limits.max_turns,
            "turn_budget_tokens": limits.turn_budget_tokens,
            "max_output_tokens": limits.max_output_tokens,
            "timeout_s": limits.timeout_s,
            "max_cost_usd": limits.max_cost_usd,
            # Left out where it is absent: workers of the version before don't know it.
            **({"ask_cost_usd": limits.ask_cost_usd} if limits.ask_cost_usd else {}),
        },
        "prompt": profile.prompt,
        "memory": {
            "top_k": profile.memory.top_k,
            "min_confidence": profile.memory.min_confidence,
        },
    }


DEFAULT_PROMPT = {Executor.WORKER: "worker-a", Executor.MEMORY: "memory"}


def _profile(parsed: _Profile) -> Profile:
    model, limits, policy = parsed.model, parsed.limits, parsed.tool_policy
    return Profile(
        name=parsed.name,
        executor=parsed.executor,
        model=ModelChoice(model.name, model.thinking == "on", model.fallback),
        window_user_messages=_user_messages(parsed.history_policy),
        allowlist=policy.allowlist,
        require_approval=policy.require_approval,
        limits=Limits(**limits.model_dump()),
        prompt=parsed.prompt or DEFAULT_PROMPT[parsed.executor],
        memory=MemoryPolicy(**parsed.memory.model_dump()),
    )


def _user_messages(policy: _History) -> int:
    """An `n` beside the old window was written by someone who knew the new form: it counts."""
    if "window" in policy.model_fields_set and "n" not in policy.model_fields_set:
        return OLD_WINDOW_USER_MESSAGES
    return policy.n


def _deprecated(parsed: _Profile) -> tuple[str, ...]:
    found = ["enable_router"] if "enable_router" in parsed.model_fields_set else []
    if "window" in parsed.history_policy.model_fields_set:
        found.append("history_policy.window")
    return tuple(found)
