"""What facts look like over HTTP."""

from datetime import datetime
from uuid import UUID

from pydantic import Field

from adapters.postgres.fact_sources import Source, SourceRun
from api.views import View
from domain.facts import Candidate, Fact, Outcome, Rejection
from domain.messages import Role
from domain.recall import FoundFact


class FactView(View):
    id: UUID
    scope: str = Field(description="`global`, or `agent:` and an agent's id")
    key: str
    value: str
    tags: list[str]
    confidence: float
    current: bool = Field(description="Neither superseded nor forgotten")
    stated_at: datetime = Field(description="When the newest evidence was said")
    created_at: datetime
    superseded_at: datetime | None
    superseded_by: UUID | None
    forgotten_at: datetime | None

    @classmethod
    def of(cls, fact: Fact) -> "FactView":
        return cls.model_validate(fact, from_attributes=True)


class FoundFactView(FactView):
    score: float | None = Field(None, description="Of a search; scores of one search compare")

    @classmethod
    def found(cls, found: FoundFact) -> "FoundFactView":
        view = cls.model_validate(found.fact, from_attributes=True)
        return view.model_copy(update={"score": found.score})


class FactPage(View):
    items: list[FoundFactView]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null: last")
    degraded: bool = Field(description="Searched by words only: the embeddings are away just now")


class SourceView(View):
    """A message that says so."""

    fact_id: UUID = Field(description="The version that rests on it")
    message_id: str
    thread_id: str
    run_id: str
    role: Role
    text: str
    said_at: datetime

    @classmethod
    def of(cls, source: Source) -> "SourceView":
        return cls.model_validate(source, from_attributes=True)


class SourceRunView(View):
    """The run that wrote it."""

    run_id: str
    thread_id: str
    origin: str

    @classmethod
    def of(cls, run: SourceRun) -> "SourceRunView":
        return cls.model_validate(run, from_attributes=True)


class FactHistoryView(View):
    """Why something is known."""

    fact: FactView
    versions: list[FactView] = Field(description="Of this key, newest first, `fact` included")
    evidence: list[SourceView] = Field(description="Messages that the versions rest on")
    source_run: SourceRunView | None = Field(description="Null: a person wrote it")


class FactWrittenView(View):
    outcome: Outcome = Field(description="`known`: it was so already, nothing changed")
    fact: FactView


class PurgedView(View):
    versions: int
    candidates: int


class CandidateView(View):
    """What was proposed and not believed."""

    id: UUID
    scope: str
    key: str
    value: str
    confidence: float
    reason: Rejection
    created_at: datetime

    @classmethod
    def of(cls, candidate: Candidate) -> "CandidateView":
        return cls.model_validate(candidate, from_attributes=True)
