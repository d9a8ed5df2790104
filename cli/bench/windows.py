"""Input tokens of a run under two policies of history, on the same conversations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from adapters import tokens
from cli.bench.conversations import Conversation, Said
from cli.bench.figures import percentile
from domain.messages import Message, Role
from domain.window import cut

USER_MESSAGES = 20
_PER_MESSAGE = 4  # what a provider adds to each message, about


@dataclass(frozen=True, slots=True)
class Policy:
    """`window`: of all that was said up to the current message, what the model is shown."""

    name: str
    window: Callable[[Sequence[Said]], Sequence[Message]]


@dataclass(frozen=True, slots=True)
class Spent:
    """A policy on some conversations. Tokens per run, prompt and tool schemas not counted."""

    kind: str
    policy: str
    conversations: int
    runs: int
    mean: float
    p95: float
    most: int
    alone: float  # share of the runs, but for each first, that saw nothing said before


def last_messages(said: Sequence[Said]) -> Sequence[Message]:
    """Ours: from the 20th last user message on."""
    return cut([each.message for each in said], USER_MESSAGES)


def today_yesterday(said: Sequence[Said]) -> Sequence[Message]:
    """An earlier generation's: from yesterday's midnight on, however much that is."""
    since = _midnight(said[-1].at) - timedelta(days=1)
    return [each.message for each in said if each.at >= since]


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


POLICIES = (
    Policy("last 20 user messages", last_messages),
    Policy("today_yesterday", today_yesterday),
)


def compare(conversations: Iterable[Conversation]) -> list[Spent]:
    """Per kind of conversation and then over all of them, each policy beside the other."""
    kinds: dict[str, list[Conversation]] = {}
    for conversation in conversations:
        kinds.setdefault(conversation.kind, []).append(conversation)
    every = [each for some in kinds.values() for each in some]
    groups = [*kinds.items(), ("all", every)]
    runs = {(policy.name, each.name): _runs(each, policy) for policy in POLICIES for each in every}
    return [
        _spent(kind, policy.name, [runs[policy.name, each.name] for each in some])
        for kind, some in groups
        for policy in POLICIES
    ]


@dataclass(frozen=True, slots=True)
class _Run:
    tokens: int
    earlier: int  # messages before the current one


def _runs(conversation: Conversation, policy: Policy) -> list[_Run]:
    """A run for each user message, as if it had just been sent."""
    sizes = {each.message.id: _size(each.message) for each in conversation.said}
    runs: list[_Run] = []
    for end, each in enumerate(conversation.said, start=1):
        if each.message.role is Role.USER:
            shown = policy.window(conversation.said[:end])
            runs.append(_Run(sum(sizes[message.id] for message in shown), len(shown) - 1))
    return runs


def _size(message: Message) -> int:
    calls = sum(tokens.count(c.name) + tokens.count(c.arguments) for c in message.tool_calls)
    return tokens.count(message.content) + calls + _PER_MESSAGE


def _spent(kind: str, policy: str, conversations: list[list[_Run]]) -> Spent:
    runs = [run for each in conversations for run in each]
    later = [run for each in conversations for run in each[1:]]
    sizes = [run.tokens for run in runs]
    return Spent(
        kind=kind,
        policy=policy,
        conversations=len(conversations),
        runs=len(runs),
        mean=sum(sizes) / len(sizes),
        p95=percentile(sizes, 95),
        most=max(sizes),
        alone=sum(run.earlier == 0 for run in later) / max(1, len(later)),
    )
