"""The inbox: what runs ask of people, and the answers."""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from adapters.postgres.checkpoints import CheckpointFilter
from api import answering, paging
from api.acting import RunReading, RunWriting
from api.answering import Given
from api.checkpoint_views import CheckpointView
from api.fields import Text
from api.paging import Cursor, Filter, Limit
from api.problems import documented, invalid
from api.state import Of
from api.views import Page
from domain.checkpoints import DENY, Scenario, State, Via
from domain.text import clean

router = APIRouter(prefix="/checkpoints", tags=["checkpoints"])

States = State | Literal["pending", "all"]


class AnswerBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    action: Text = Field(min_length=1, max_length=100, examples=["approve"])
    input: Any = Field(None, description="A text; for `edit` the arguments as an object")
    reason: Text | None = Field(
        None, max_length=2_000, description="For `deny`: the model reads it"
    )


@router.get("", summary="What runs ask of people, newest first", responses=documented(403))
async def list_checkpoints(
    services: Of,
    acting: RunReading,
    state: Annotated[
        States, Query(description="`pending`: open, or queued until people may be asked again")
    ] = "pending",
    scenario: Scenario | None = None,
    run_id: Filter = None,
    thread_id: Filter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[CheckpointView]:
    owner = acting.owner.id
    states = None if state == "all" else tuple(s for s in State if s.pending)
    if isinstance(state, State):
        states = (state,)
    where = CheckpointFilter(
        owner_id=owner,
        states=states,
        scenario=scenario,
        run_key=(await services.runs.get(owner, run_id)).key if run_id else None,
        thread_id=thread_id,
        before=paging.decode(cursor),
    )
    found = await services.checkpoints.list(where, limit)
    last = paging.encode(found[-1].created_at, found[-1].id) if len(found) == limit else None
    return Page(items=[CheckpointView.of(each) for each in found], next_cursor=last)


@router.get("/{checkpoint_id}", summary="One of them", responses=documented(403, 404))
async def get_checkpoint(checkpoint_id: UUID, services: Of, acting: RunReading) -> CheckpointView:
    return CheckpointView.of(await services.checkpoints.get(acting.owner.id, checkpoint_id))


@router.post("/{checkpoint_id}", summary="Answer it", responses=documented(403, 404, 409))
async def answer_checkpoint(
    checkpoint_id: UUID, body: AnswerBody, services: Of, acting: RunWriting
) -> CheckpointView:
    """The first answer counts. The same answer by the same person again changes nothing."""
    owner = acting.owner.id
    asked = await services.checkpoints.get(owner, checkpoint_id)
    given = Given(asked, body.action, _input(body))
    if asked.state.pending:
        answering.check(services, given, "")
    await answering.answer(services, [given], by=acting.who.id, via=Via.API)
    return CheckpointView.of(await services.checkpoints.get(owner, checkpoint_id))


def _input(body: AnswerBody) -> Any:
    if body.reason is not None:
        if body.action != DENY or body.input is not None:
            raise invalid("reason", "Only with action deny, and without input.")
        return body.reason
    return clean(body.input) if isinstance(body.input, str) else body.input
