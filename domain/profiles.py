"""Execution profiles: which model, tools and limits a run gets, and how one is chosen. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from domain.tools import ToolList


class Executor(StrEnum):
    WORKER = "worker"
    MEMORY = "memory"


class SessionType(StrEnum):
    CHAT = "chat"
    AUTOMATION = "automation"
    STATELESS = "stateless"  # of one run, and gone a while after it


DEFAULT_PROFILE: Mapping[SessionType, str] = {
    SessionType.CHAT: "chat_default",
    SessionType.AUTOMATION: "automation_memory_default",
    SessionType.STATELESS: "chat_default",
}

EXECUTOR_TOOLS: Mapping[Executor, ToolList] = {
    Executor.WORKER: ("*",),
    Executor.MEMORY: ("memory_write", "memory_forget"),
}
"""What an absent allowlist means, per executor."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    name: str
    thinking: bool = False
    fallback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    max_turns: int = 8
    turn_budget_tokens: int = 40_000
    max_output_tokens: int = 4096
    timeout_s: int = 600
    max_cost_usd: str | None = None  # decimal string
    ask_cost_usd: str | None = None  # past it a person is asked, and at each doubling again


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    top_k: int = 3
    min_confidence: float = 0.6


@dataclass(frozen=True, slots=True)
class Profile:
    """Who the agent is. Frozen into the run, so editing a profile never changes a run."""

    name: str
    executor: Executor
    model: ModelChoice
    window_user_messages: int = 20  # 1 to 200
    allowlist: ToolList = None
    require_approval: tuple[str, ...] = ()
    limits: Limits = Limits()
    prompt: str = "worker-a"
    memory: MemoryPolicy = MemoryPolicy()

    @property
    def tools(self) -> ToolList:
        """The allowlist, with the executor's documented default where it is absent."""
        return EXECUTOR_TOOLS[self.executor] if self.allowlist is None else self.allowlist


@dataclass(frozen=True, slots=True)
class Rollout:
    """An operator's rule: this share of this traffic uses that profile. None matches everyone."""

    id: str
    profile: str
    percentage: float  # 0 to 100
    owner_id: str | None = None
    task_type: str | None = None


def choose_profile(
    *,
    requested: str | None,
    session_profile: str | None,
    rollouts: Iterable[Rollout],
    owner_id: str,
    task_type: str | None,
    session_type: SessionType,
) -> str:
    """The name to use: run request → session → first matching rollout rule → type's default."""
    if requested:
        return requested
    if session_profile:
        return session_profile
    for rule in rollouts:
        if _applies(rule, owner_id, task_type):
            return rule.profile
    return DEFAULT_PROFILE[session_type]


def _applies(rule: Rollout, owner_id: str, task_type: str | None) -> bool:
    if rule.owner_id is not None and rule.owner_id != owner_id:
        return False
    if rule.task_type is not None and rule.task_type != task_type:
        return False
    return bucket(rule.id, owner_id) < rule.percentage


def bucket(rule_id: str, owner_id: str) -> float:
    """A stable number in [0, 100) for this owner under this rule: raising a percentage only ever
    adds owners, and two rules draw independently."""
    digest = hashlib.sha256(f"{rule_id}:{owner_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32 * 100
