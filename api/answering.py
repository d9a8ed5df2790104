"""An answer to a checkpoint on its way into its run: written down, told, and what came of it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.ending import end_lost
from api.problems import Problem, invalid, unavailable
from api.state import Services
from domain.checkpoints import (
    ANSWER,
    CANCELLED,
    EDIT,
    MODIFY,
    Answer,
    AnswerInput,
    AnswerResult,
    Checkpoint,
    Refused,
    State,
    Via,
)
from domain.ids import run_workflow_id
from domain.text import cleaned

MAX_ANSWER = 20_000  # characters of a text
MAX_ARGUMENTS = 1_500_000  # characters of edited arguments, as JSON
_PATIENCE = timedelta(seconds=10)
_WITH_TEXT = (ANSWER, MODIFY)


@dataclass(frozen=True, slots=True)
class Given:
    """What somebody says to a checkpoint. `input`: a text, or the arguments for `edit`."""

    checkpoint: Checkpoint
    action: str
    input: Any = None


def check(services: Services, given: Given, path: str) -> None:
    """Raises a 422 that names the field below `path` for an answer that can't be one."""
    actions = {action.id for action in given.checkpoint.actions} | {CANCELLED}
    if given.action not in actions:
        offered = ", ".join(sorted(actions - {CANCELLED}))
        raise invalid(f"{path}action", f"One of {offered}.")
    if given.action == EDIT:
        if not isinstance(given.input, dict):
            raise invalid(f"{path}input", "The arguments of the call, as an object.")
        arguments = cast("dict[str, Any]", given.input)
        if len(json.dumps(arguments)) > MAX_ARGUMENTS:
            raise invalid(f"{path}input", f"At most {MAX_ARGUMENTS:,} characters as JSON.")
        wrong = services.tools.wrong(given.checkpoint.tool or "", arguments)
        if wrong is not None:
            raise invalid(f"{path}input", wrong)
        return
    if given.input is not None and not isinstance(given.input, str):
        raise invalid(f"{path}input", "A text.")
    if given.action in _WITH_TEXT and not (given.input or "").strip():
        raise invalid(f"{path}input", "This answer is a text: say something.")
    if len(given.input or "") > MAX_ANSWER:
        raise invalid(f"{path}input", f"At most {MAX_ANSWER:,} characters.")


async def answer(
    services: Services,
    given: Sequence[Given],
    *,
    by: UUID,
    via: Via,
    segment: str | None = None,
    digest: str | None = None,
) -> None:
    """Have these answers count, all of them or none. They are to one run, and were checked.

    Raises a 409 for one that is decided already (the same person's same answer is no conflict), a
    503 when the engine can't be reached.
    """
    late = [one for one in given if not one.checkpoint.state.pending]
    if late:
        if all(_same(one, by) for one in given):
            return
        raise decided(late[0].checkpoint)
    drafts = [await _drafted(services, one, by, via) for one in given]
    run_key = given[0].checkpoint.run_key
    what = AnswerInput(tuple(drafts), via, by, segment, digest)
    handle = services.temporal.get_workflow_handle(run_workflow_id(run_key))
    try:
        await handle.execute_update("answer", what, result_type=AnswerResult, rpc_timeout=_PATIENCE)
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise _unheard() from error
    except WorkflowUpdateFailedError as error:
        cause = error.cause
        if isinstance(cause, ApplicationError) and cause.type == Refused.TWICE:
            raise invalid("resume", "One checkpoint is answered twice.") from error
        await _settle(services, given, drafts, error)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise _unheard() from error
        await _settle(services, given, drafts, error)


async def _drafted(services: Services, one: Given, by: UUID, via: Via) -> Answer:
    asked, text = one.checkpoint, cleaned(one.input)
    secret = text if asked.secret_for is not None and one.action == ANSWER else None
    id = await services.checkpoints.draft_answer(
        asked.owner_id,
        asked.id,
        actor_id=by,
        via=via,
        action=one.action,
        input=None if secret is not None else text,
        secret=secret,
    )
    return Answer(str(asked.id), one.action, id)


async def _settle(
    services: Services, given: Sequence[Given], drafts: Sequence[Answer], error: Exception
) -> None:
    """The run did not take it, or is over: its rows say what holds."""
    won = await services.checkpoints.answered_with([d.answer_id for d in drafts if d.answer_id])
    if len(won) == len(drafts):
        return  # it had, and we were not told
    for one in given:
        now = await services.checkpoints.get(one.checkpoint.owner_id, one.checkpoint.id)
        if not now.state.pending:
            raise decided(now) from error
    # Its workflow is gone, and nobody has noticed yet.
    await end_lost(services.runs, services.stream, given[0].checkpoint.run_key)
    raise Problem("checkpoint-expired", 409, "The run has ended.") from error


def _same(one: Given, by: UUID) -> bool:
    asked = one.checkpoint
    told = asked.input == one.input or asked.secret_for is not None
    return asked.state is State.ANSWERED and (asked.action, asked.answered_by, told) == (
        one.action,
        by,
        True,
    )


def decided(asked: Checkpoint) -> Problem:
    """409: what counted instead."""
    extra = {
        "checkpointId": str(asked.id),
        "action": asked.action,
        "answeredBy": None if asked.answered_by is None else str(asked.answered_by),
        "answeredAt": None if asked.answered_at is None else asked.answered_at.isoformat(),
        "via": asked.via,
    }
    if asked.state is State.ANSWERED:
        words = f"It was answered already: {asked.action}."
        return Problem("checkpoint-answered", 409, words, extra)
    over = "The run has ended." if asked.state is State.CANCELLED else "Its time is over."
    if asked.state is State.NOTED:
        over = "It is a notice and asks nothing."
    return Problem("checkpoint-expired", 409, over, extra)


def _unheard() -> Problem:
    return unavailable(
        "The workflow engine did not answer in time; the answer may still count. Send it again: "
        "the same answer twice does no harm."
    )
