"""What the server was asked and how each call ended, for tests to look at over HTTP."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from standin.directives import Behaviour, Directive

_KEPT = 500  # requests


class Outcome(StrEnum):
    ACTIVE = "active"
    COMPLETED = "completed"
    FAILED = "failed"  # an error status or error frame, as told or because the body was refused
    CUT = "cut"  # we dropped the connection, as told
    ABORTED = "aborted"  # the client went away


@dataclass(slots=True)
class Record:
    """One call. `written`: the text or tool-call chunks that went out. `authorized`: whether a
    key came along; the key itself is not kept. `peer`: the client's port, one per connection."""

    number: int
    body: Any
    authorized: bool = False
    peer: int = 0
    outcome: Outcome = Outcome.ACTIVE
    written: int = 0


@dataclass(slots=True)
class Journal:
    """The server's whole state. One per process; nothing is kept over a restart."""

    always: tuple[Directive, ...] = ()  # for calls whose message has no directive
    queued: deque[Directive] = field(default_factory=deque[Directive])  # one per call
    _records: deque[Record] = field(default_factory=lambda: deque[Record](maxlen=_KEPT))
    _used: Counter[str] = field(default_factory=Counter[str])
    _ended: Counter[Outcome] = field(default_factory=Counter[Outcome])
    _total: int = 0

    def open(self, body: object, *, authorized: bool, peer: int) -> Record:
        self._total += 1
        record = Record(self._total, body, authorized, peer)
        self._records.append(record)
        return record

    def close(self, record: Record, outcome: Outcome) -> None:
        record.outcome = outcome
        self._ended[outcome] += 1

    def behaviour(self, given: Sequence[Directive], turn: int) -> Behaviour:
        """What to do for one call. Counts the use of every directive that has `times`."""
        directives = [*(given or self.always)]
        if self.queued:
            directives.append(self.queued.popleft())
        behaviour = Behaviour()
        for directive in directives:
            if self._due(directive, turn):
                behaviour = directive.apply(behaviour)
        return behaviour

    def _due(self, directive: Directive, turn: int) -> bool:
        if directive.turn not in (None, turn):
            return False
        if directive.times is None:
            return True
        self._used[directive.text] += 1
        return self._used[directive.text] <= directive.times

    def reset(self) -> None:
        """Forget everything except the calls that are still open, and number on."""
        self.always = ()
        self.queued.clear()
        self._records.clear()
        self._used.clear()
        self._ended.clear()
        self._total = 0

    def report(self, contains: str = "") -> dict[str, Any]:
        """Counts since the last reset, and the last 500 requests whose body contains a text."""
        shown = [asdict(record) for record in self._records if contains in repr(record.body)]
        counts = {str(outcome): self._ended[outcome] for outcome in Outcome}
        counts["active"] = self._total - sum(self._ended.values())
        return {"total": self._total, **counts, "requests": shown}
