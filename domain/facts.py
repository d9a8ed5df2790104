"""Facts: stable memories of an owner, what a valid one is, and what becomes of a write. Pure."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from domain.errors import InvalidInput
from domain.text import clean

GLOBAL = "global"
MAX_KEY = 200  # characters, here and below
MAX_VALUE = 8_000
MAX_TAG = 60
MAX_TAGS = 20
MAX_EVIDENCE = 50
MAX_MESSAGE_ID = 200

_SCOPE = re.compile(r"global|agent:[a-z0-9][a-z0-9_-]{0,62}")
_SPACE = re.compile(r"\s+")
_JOINT = re.compile(r"[\s_.:/\u2010-\u2015-]+")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A message that says so."""

    session_key: UUID
    message_id: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One version of a fact. It is current while neither superseded nor forgotten."""

    id: UUID
    owner_id: UUID
    scope: str  # global | agent:{id}
    key: str
    value: str
    tags: tuple[str, ...]
    confidence: float  # 0 to 1
    evidence: tuple[Evidence, ...]
    source_run: UUID | None  # key of the run that wrote it
    stated_at: datetime  # when the newest evidence was said; a person's own edit: when it was made
    created_at: datetime
    superseded_by: UUID | None = None
    superseded_at: datetime | None = None
    forgotten_at: datetime | None = None
    forgotten_through: datetime | None = None  # what was said up to here stays forgotten

    @property
    def current(self) -> bool:
        return self.superseded_at is None and self.forgotten_at is None


@dataclass(frozen=True, slots=True)
class FactWrite:
    """What is to be remembered; `checked` says whether it may be."""

    key: str
    value: str
    tags: tuple[str, ...] = ()
    scope: str = GLOBAL
    confidence: float = 1.0
    evidence: tuple[Evidence, ...] = ()  # none: a person says so now


class Outcome(StrEnum):
    """What became of a write."""

    WRITTEN = "written"
    KNOWN = "known"  # it is there already, or was and is history
    OUTDATED = "outdated"  # said before what is known now, or before it was forgotten
    REJECTED = "rejected"


class Rejection(StrEnum):
    """Why a proposed fact was not believed."""

    CONFIDENCE = "confidence"
    EVIDENCE = "evidence"
    INSTRUCTION = "instruction"
    OUTDATED = "outdated"
    PURGED = "purged"  # it rests on messages that a purged fact rested on


@dataclass(frozen=True, slots=True)
class Written:
    """`fact`: what was written, or what is known instead; None if nothing is."""

    outcome: Outcome
    fact: Fact | None = None
    reason: Rejection | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fact that was proposed and not believed."""

    id: UUID
    scope: str
    key: str
    value: str
    confidence: float
    reason: Rejection
    source_run: UUID | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FactHistory:
    """A fact, and all versions of its key in its scope, newest first (itself included)."""

    fact: Fact
    versions: tuple[Fact, ...]


def checked(write: FactWrite) -> FactWrite:
    """The write in its stored form. Raises InvalidInput naming the field."""
    scope = checked_scope(write.scope)
    if not 0 <= write.confidence <= 1:  # NaN too
        raise InvalidInput("confidence", "must be from 0 to 1")
    value = clean(write.value).strip()
    _bound("value", value, MAX_VALUE)
    tags = _tags(write.tags)
    evidence = checked_evidence(write.evidence)
    key = checked_key(write.key)
    return replace(write, key=key, value=value, tags=tags, scope=scope, evidence=evidence)


def checked_key(key: str) -> str:
    """The key in its stored form: NFC, single spaces. Raises InvalidInput."""
    key = _SPACE.sub(" ", unicodedata.normalize("NFC", clean(key))).strip()
    _bound("key", key, MAX_KEY)
    return key


def checked_evidence(evidence: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Each message once. Raises InvalidInput."""
    kept = tuple(
        dict.fromkeys(replace(each, message_id=clean(each.message_id)) for each in evidence)
    )
    if len(kept) > MAX_EVIDENCE:
        raise InvalidInput("evidence", f"may name at most {MAX_EVIDENCE} messages")
    for each in kept:
        _bound("evidence", each.message_id, MAX_MESSAGE_ID)
    return kept


def checked_scope(scope: str) -> str:
    """The scope as it is. Raises InvalidInput."""
    if not _SCOPE.fullmatch(scope):
        raise InvalidInput("scope", "must be 'global' or 'agent:' and an agent's id")
    return scope


def _tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Lower case, without empty ones and repetitions."""
    kept = dict.fromkeys(
        tag for raw in tags if (tag := _SPACE.sub(" ", clean(raw)).strip().casefold())
    )
    if len(kept) > MAX_TAGS:
        raise InvalidInput("tags", f"at most {MAX_TAGS} tags")
    for tag in kept:
        _bound("tags", tag, MAX_TAG)
    return tuple(kept)


def _bound(field: str, text: str, most: int) -> None:
    if not text:
        raise InvalidInput(field, "must not be empty")
    if len(text) > most:
        raise InvalidInput(field, f"has {len(text):,} characters, at most {most:,} are allowed")


def judged(
    write: FactWrite, stated_at: datetime, versions: Sequence[Fact], purged_at: datetime | None
) -> Outcome:
    """Whether a write says something new, given all versions of its key.

    The same messages read again say nothing new, however much has changed since, and what is said
    later wins over what is heard later. So a day may be processed again, and in any order.
    """
    current = next((fact for fact in versions if fact.current), None)
    if current is not None and _same(write, current):
        return Outcome.KNOWN
    evidence = frozenset(write.evidence)
    if evidence and any(
        fact.value == write.value and evidence <= set(fact.evidence) for fact in versions
    ):
        return Outcome.KNOWN
    bars = [fact.forgotten_through for fact in versions] + [purged_at]
    if current is not None:
        bars.append(current.stated_at)
    if any(bar is not None and stated_at < bar for bar in bars):
        return Outcome.OUTDATED
    return Outcome.WRITTEN


def _same(write: FactWrite, fact: Fact) -> bool:
    """A person may also correct the tags of a value, or how sure it is."""
    if write.value != fact.value:
        return False
    return bool(write.evidence) or (
        write.tags == fact.tags and abs(write.confidence - fact.confidence) < 1e-4
    )


def key_digest(owner_id: UUID, scope: str, key: str) -> bytes:
    """Stands for a key whose name must not be kept. Case and what joins words don't matter.

    All else does: `c++` is not `c#`, and marks are letters in many scripts.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", key).casefold())
    plain = _JOINT.sub(" ", folded).strip() or folded
    return hashlib.sha256(f"{owner_id}:{scope}:{plain}".encode()).digest()
