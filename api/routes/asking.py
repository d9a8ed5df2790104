"""Raising a checkpoint on a run at work: for whoever supervises it from outside."""

import json
from datetime import timedelta
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from temporalio.service import RPCError, RPCStatusCode

from api.acting import RunWriting
from api.checkpoint_views import CheckpointView
from api.fields import Text
from api.problems import Problem, documented, invalid
from api.state import Of
from domain.asked import SUPERVISED
from domain.checkpoints import Action, ActionType, Question, Scenario, checkpoint_id
from domain.desk import raised
from domain.ids import run_workflow_id
from domain.text import cleaned

router = APIRouter(prefix="/runs", tags=["checkpoints"])

_PATIENCE = timedelta(seconds=10)
_MAX_CONTEXT = 50_000


class ActionBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,59}$")]
    label: Text = Field(min_length=1, max_length=500)
    type: ActionType = ActionType.SELECT


class AskBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    scenario: Scenario
    body: Text = Field(min_length=1, max_length=8_000, description="What people read")
    title: Text | None = Field(
        None, min_length=1, max_length=200, description="In events and logs: quote nobody here"
    )
    actions: Annotated[list[ActionBody], Field(min_length=1, max_length=20)] | None = Field(
        None, description="Absent: those of the scenario"
    )
    context: dict[str, Any] = Field({}, description="Shown beside it")


@router.post(
    "/{run_id:path}/checkpoints",
    summary="Raise a checkpoint on a run at work",
    status_code=201,
    responses=documented(403, 404, 409),
)
async def raise_checkpoint(
    run_id: str, body: AskBody, services: Of, acting: RunWriting
) -> CheckpointView:
    """It is put before the run's next step: a blocking one holds the run there. Its answer is with
    the checkpoint; `stop` ends the run."""
    question = _question(body)
    run = await services.runs.get(acting.owner.id, run_id)
    if run.status.ended:
        raise _over()
    subject = uuid4().hex
    id = checkpoint_id(run.key, subject)
    await services.checkpoints.raise_(run.key, id, question, _batch(question, subject), None)
    handle = services.temporal.get_workflow_handle(run_workflow_id(run.key))
    try:
        held = raised(id, question, subject, _batch(question, subject))
        await handle.execute_update("ask", held, rpc_timeout=_PATIENCE)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise _over() from error
        raise
    return CheckpointView.of(await services.checkpoints.get(acting.owner.id, id))


def _question(body: AskBody) -> Question:
    if body.scenario not in SUPERVISED:
        raise invalid("scenario", "Only a run's own tool calls raise it.")
    title, actions = SUPERVISED[body.scenario]
    if body.actions is not None:
        if not actions:
            raise invalid("actions", "A notice asks nothing.")
        if len({action.id for action in body.actions}) < len(body.actions):
            raise invalid("actions", "Two actions have the same id.")
        actions = tuple(Action(a.id, a.label, a.type) for a in body.actions)
    context = cleaned(body.context)
    if len(json.dumps(context)) > _MAX_CONTEXT:
        raise invalid("context", f"At most {_MAX_CONTEXT:,} characters as JSON.")
    return Question(body.scenario, body.title or title, body.body, actions, context)


def _batch(question: Question, subject: str) -> str:
    """Notices that wait come together."""
    return subject if question.actions else "notices"


def _over() -> Problem:
    return Problem("checkpoint-expired", 409, "The run has ended: it asks nothing any more.")
