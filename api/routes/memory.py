"""Memory: what is known of the caller, why, and how to correct it or have it gone."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from adapters.recall import Asked
from api import paging
from api.fact_views import (
    CandidateView,
    FactHistoryView,
    FactPage,
    FactView,
    FactWrittenView,
    FoundFactView,
    PurgedView,
    SourceRunView,
    SourceView,
)
from api.fields import Text
from api.identity import MemoryReader, MemoryWriter
from api.paging import Cursor, Filter, Limit
from api.problems import Problem, documented
from api.state import Of
from api.views import Page
from domain.facts import GLOBAL, MAX_KEY, MAX_TAGS, MAX_VALUE, FactWrite, checked_scope

router = APIRouter(prefix="/memory", tags=["memory"])


class FactBody(BaseModel):
    """What a person says about themselves. A key that is known gets a new version."""

    model_config = ConfigDict(extra="forbid")

    key: Text = Field(min_length=1, max_length=MAX_KEY, examples=["favourite_drink"])
    value: Text = Field(min_length=1, max_length=MAX_VALUE, examples=["Likes green tea."])
    tags: list[Text] = Field([], max_length=MAX_TAGS)
    scope: Text = GLOBAL


@router.get("/facts", summary="What is remembered", responses=documented(403))
async def list_facts(
    services: Of,
    who: MemoryReader,
    query: Annotated[
        Text | None, Query(max_length=1_000, description="Search, best first; absent: newest first")
    ] = None,
    scope: Filter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> FactPage:
    """A search has one page."""
    scopes = None if scope is None else [checked_scope(scope)]
    if query is not None:
        recalled = await services.recall.search(Asked(who.id, query, limit, scopes))
        found = [FoundFactView.found(each) for each in recalled.found]
        return FactPage(items=found, next_cursor=None, degraded=recalled.degraded)
    before = paging.decode(cursor)
    facts = await services.facts.list(who.id, scopes=scopes, before=before, limit=limit)
    full = len(facts) == limit
    last = paging.encode(facts[-1].created_at, facts[-1].id) if full else None
    views = [FoundFactView.model_validate(fact, from_attributes=True) for fact in facts]
    return FactPage(items=views, next_cursor=last, degraded=False)


@router.post(
    "/facts", summary="Say or correct something", status_code=201, responses=documented(403)
)
async def write_fact(body: FactBody, services: Of, who: MemoryWriter) -> FactWrittenView:
    """It counts as said now: nothing that was said before changes it."""
    write = FactWrite(key=body.key, value=body.value, tags=tuple(body.tags), scope=body.scope)
    done = await services.facts.write(who.id, write, actor=who.id)
    if done.fact is None:
        raise Problem("conflict", 409, "Something newer was said meanwhile. Look, and try again.")
    return FactWrittenView(outcome=done.outcome, fact=FactView.of(done.fact))


@router.get(
    "/facts/{fact_id}", summary="A fact, and why it is known", responses=documented(403, 404)
)
async def get_fact(fact_id: UUID, services: Of, who: MemoryReader) -> FactHistoryView:
    history = await services.facts.get(who.id, fact_id)
    sources = await services.sources.of(who.id, [fact.id for fact in history.versions])
    run = await services.sources.run(who.id, history.fact.source_run)
    return FactHistoryView(
        fact=FactView.of(history.fact),
        versions=[FactView.of(fact) for fact in history.versions],
        evidence=[SourceView.of(source) for source in sources],
        source_run=None if run is None else SourceRunView.of(run),
    )


@router.delete(
    "/facts/{fact_id}", summary="Forget a fact", status_code=204, responses=documented(403, 404)
)
async def forget_fact(
    fact_id: UUID,
    services: Of,
    who: MemoryWriter,
    reason: Annotated[Text, Query(max_length=500, description="Why, for the record")] = "",
) -> None:
    """It is found no more; its history stays until it is purged."""
    await services.facts.forget(who.id, fact_id=fact_id, reason=reason, actor=who.id)


@router.post(
    "/facts/{fact_id}/purge", summary="Have a fact gone for good", responses=documented(403, 404)
)
async def purge_fact(fact_id: UUID, services: Of, who: MemoryWriter) -> PurgedView:
    """Every version of its key, with evidence, vectors and candidates. Can't be undone."""
    gone = await services.purge.purge(who.id, fact_id, actor=who.id)
    for run in gone.runs:
        await services.stream.forget(run)
    return PurgedView(versions=gone.versions, candidates=gone.candidates)


@router.get("/candidates", summary="What was proposed and not believed", responses=documented(403))
async def list_candidates(
    services: Of, who: MemoryReader, limit: Limit = 50, cursor: Cursor = None
) -> Page[CandidateView]:
    found = await services.facts.candidates(who.id, before=paging.decode(cursor), limit=limit)
    full = len(found) == limit
    last = paging.encode(found[-1].created_at, found[-1].id) if full else None
    return Page(items=[CandidateView.of(each) for each in found], next_cursor=last)
