"""When a run puts its questions to people, and what is due. Pure: the workflow has the clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from domain.checkpoints import (
    ANSWER,
    CANCELLED,
    POLICIES,
    STOP,
    Answer,
    Policy,
    Question,
    Refusal,
    Refused,
    Scenario,
    Severity,
    State,
    Via,
)

NOTICES = "notices"
"""The batch of all notices that wait: they come as one."""

_BEHIND_MILESTONE = (Scenario.MISSING_INPUT, Scenario.LOW_QUALITY, Scenario.COST)
_RANK = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Manners:
    """How people are asked. At most `limit` interactions in any `window_s` seconds."""

    policies: Mapping[Scenario, Policy] = field(default_factory=lambda: dict(POLICIES))
    limit: int = 3
    window_s: float = 300.0


class Verdict(StrEnum):
    """What becomes of a tool call that a person may have to be asked about."""

    RUN = "run"
    ASK = "ask"
    REFUSED = "refused"  # a person refused the same call before


@dataclass(frozen=True, slots=True)
class Raised:
    """A checkpoint that was written down and not put to people yet."""

    id: str
    scenario: Scenario
    subject: str
    batch: str
    actions: tuple[str, ...]
    secret: bool = False


def raised(id: UUID, question: Question, subject: str, batch: str) -> Raised:
    """What the run has to know of a question."""
    actions = tuple(action.id for action in question.actions)
    secret = question.secret_for is not None
    return Raised(str(id), question.scenario, subject, batch, actions, secret)


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A tool call, and whether it may run; `raised`: what is to be asked."""

    call_id: str
    verdict: Verdict
    raised: Raised | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What the database says of a checkpoint: that is what counts."""

    id: str
    state: State
    action: str | None
    by: UUID | None
    via: Via | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Held:
    """A checkpoint as its run holds it: no text. `subject`: what it is about, a tool call's id
    for one; `order`: of its raising; `reminders`: when those that are left are due."""

    id: str
    scenario: Scenario
    subject: str
    batch: str
    order: int
    actions: tuple[str, ...] = ()
    secret: bool = False
    state: State = State.QUEUED
    deadline: datetime | None = None
    reminders: tuple[datetime, ...] = ()
    reminded: int = 0
    action: str | None = None
    by: UUID | None = None
    via: Via | None = None
    at: datetime | None = None  # when it was decided

    @property
    def blocks(self) -> bool:
        """Whether the run waits for it."""
        return self.state.pending and POLICIES[self.scenario].blocking


def openable(
    held: Sequence[Held], put: Sequence[datetime], manners: Manners, now: datetime
) -> tuple[Held, ...]:
    """Those that may be put to people now. `put`: when interactions began, oldest first.

    A batch is one interaction. While a milestone is open, questions that it may settle wait behind
    it; then the more severe come first.
    """
    room = manners.limit - len(_recent(put, manners, now))
    milestone = any(h.scenario is Scenario.MILESTONE and h.state is State.OPEN for h in held)
    chosen: list[str] = []
    for each in _in_order(held):
        if milestone and each.scenario in _BEHIND_MILESTONE:
            continue
        if each.batch not in chosen and len(chosen) < room:
            chosen.append(each.batch)
            milestone = milestone or each.scenario is Scenario.MILESTONE
    behind = _BEHIND_MILESTONE if milestone else ()
    return tuple(h for h in _in_order(held) if h.batch in chosen and h.scenario not in behind)


def opened(each: Held, manners: Manners, now: datetime) -> Held:
    """The same, put to people now: its deadline runs from here."""
    policy = manners.policies[each.scenario]
    if not policy.blocking:
        return replace(each, state=State.NOTED)
    seconds = policy.deadline_s
    return replace(
        each,
        state=State.OPEN,
        deadline=None if seconds is None else now + timedelta(seconds=seconds),
        reminders=tuple(now + timedelta(seconds=after) for after in sorted(policy.reminders_s)),
    )


def expired(held: Sequence[Held], now: datetime) -> tuple[Held, ...]:
    """Open questions whose deadline has passed."""
    return tuple(
        h for h in held if h.state is State.OPEN and h.deadline is not None and h.deadline <= now
    )


def to_remind(held: Sequence[Held], now: datetime) -> tuple[Held, ...]:
    """Open questions of which somebody is to be reminded."""
    return tuple(h for h in held if h.state is State.OPEN and h.reminders and h.reminders[0] <= now)


def stopped(held: Sequence[Held]) -> Held | None:
    """The question by which a person, or silence, has stopped the run; None if none did."""
    return next(
        (
            each
            for each in held
            if each.action == STOP and each.state in (State.ANSWERED, State.EXPIRED)
        ),
        None,
    )


def decided(each: Held, decision: Decision) -> Held:
    """The same, as the database has it."""
    return replace(
        each,
        state=decision.state,
        action=decision.action,
        by=decision.by,
        via=decision.via,
        at=decision.at,
    )


def reminded(each: Held) -> Held:
    return replace(each, reminders=each.reminders[1:], reminded=each.reminded + 1)


def next_moment(
    held: Sequence[Held], put: Sequence[datetime], manners: Manners, now: datetime
) -> datetime | None:
    """When there may be something to do that nobody has to ask for; None: never."""
    moments = [h.deadline for h in held if h.state is State.OPEN and h.deadline is not None]
    moments += [h.reminders[0] for h in held if h.state is State.OPEN and h.reminders]
    recent = _recent(put, manners, now)
    if any(h.state is State.QUEUED for h in held) and len(recent) >= manners.limit:
        moments.append(recent[-manners.limit] + timedelta(seconds=manners.window_s))
    return min(moments, default=None)


def refusal(held: Mapping[str, Held], answers: Sequence[Answer]) -> Refusal | None:
    """Why these answers can't count, all of them; None if they can."""
    seen: set[str] = set()
    for answer in answers:
        each = held.get(answer.checkpoint_id)
        if each is None or each.state is State.NOTED:
            return Refusal(Refused.UNKNOWN, answer.checkpoint_id)
        if answer.checkpoint_id in seen:
            return Refusal(Refused.TWICE, answer.checkpoint_id)
        seen.add(answer.checkpoint_id)
        if not each.state.pending:
            late = each.state is not State.ANSWERED
            type = Refused.EXPIRED if late else Refused.ANSWERED
            return Refusal(type, each.id, each.action, each.by, each.via, each.at)
        untold = each.secret and answer.answer_id is None and answer.action == ANSWER
        if (answer.action != CANCELLED and answer.action not in each.actions) or untold:
            return Refusal(Refused.ACTION, each.id)
    return None


def _in_order(held: Sequence[Held]) -> list[Held]:
    waiting = [h for h in held if h.state is State.QUEUED]
    return sorted(waiting, key=lambda h: (_RANK[POLICIES[h.scenario].severity], h.order))


def _recent(put: Sequence[datetime], manners: Manners, now: datetime) -> list[datetime]:
    since = now - timedelta(seconds=manners.window_s)
    return [at for at in put if at > since]
