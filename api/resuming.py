"""`resume` of a RunAgentInput: the answers of an AG-UI client, and the segment that they begin."""

import hashlib
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, cast
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError
from pydantic.alias_generators import to_camel

from adapters.postgres.runs import Segment
from api import answering, sse
from api.answering import Given
from api.problems import invalid
from api.run_input import RunInput, identifier
from api.state import Services
from domain import agui, agui_shapes
from domain.agui_reader import Numbered, Reader
from domain.checkpoints import (
    ANSWER,
    APPROVE,
    APPROVE_SESSION,
    CANCELLED,
    DENY,
    EDIT,
    Checkpoint,
    Scenario,
    Via,
)
from domain.errors import NotFound, RunConflict
from domain.events import Recorded, RunPaused, RunStarted, position
from domain.identity import Caller
from domain.ids import session_key
from domain.messages import Usage
from domain.runs import Run
from domain.text import clean

MAX_ENTRIES = 100


class _Strict(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", populate_by_name=True)


class Entry(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")

    interrupt_id: UUID
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class Decision(_Strict):
    """The payload that decides about a tool call."""

    approved: StrictBool  # "yes" or 1 approve nothing
    reason: str | None = Field(None, max_length=2_000)
    edited_args: dict[str, Any] | None = None
    for_session: StrictBool = False


class Said(_Strict):
    """The payload that answers any other question."""

    action: str
    input: str | None = None


async def resume(services: Services, body: RunInput, who: Caller) -> Segment:
    """Have the answers of this request count, and find the segment that it begins.

    The same request again finds it again. Raises a 422 naming the entry that is wrong, NotFound
    for an unknown one, RunConflict for a run id that is taken, and what `answering.answer` raises.
    """
    run_id = identifier("runId", body.run_id)
    digest = _digest(body)
    if known := await _known(services, who, run_id):
        if known.digest != digest:
            raise RunConflict(f"Run {run_id} was started with another request.")
        return known
    given = await _given(services, body, who)
    for place, one in enumerate(given):
        if one.checkpoint.state.pending:
            answering.check(services, one, f"resume.{place}.payload.")
    await answering.answer(services, given, by=who.id, via=Via.AGUI, segment=run_id, digest=digest)
    if begun := await _known(services, who, run_id):
        return begun
    # Somebody else answered the same, or the run did not stand still any more: it is told as it is.
    run = await services.runs.get_by_key(given[0].checkpoint.run_key)
    return Segment(run, run.segment, await services.runs.latest_segment(run))


async def _known(services: Services, who: Caller, run_id: str) -> Segment | None:
    try:
        return await services.runs.segment(who.id, run_id)
    except NotFound:
        return None


async def _given(services: Services, body: RunInput, who: Caller) -> list[Given]:
    entries = _entries(body.resume or ())
    given: list[Given] = []
    for place, entry in enumerate(entries):
        asked = await services.checkpoints.get(who.id, entry.interrupt_id)
        if asked.thread_id != body.thread_id:
            raise invalid(f"resume.{place}.interruptId", "It belongs to another thread.")
        given.append(_one(entry, asked, f"resume.{place}.payload"))
    if len({one.checkpoint.run_key for one in given}) > 1:
        raise invalid("resume", "All entries must be of one run.")
    return given


def _entries(raw: Sequence[Any]) -> list[Entry]:
    if len(raw) > MAX_ENTRIES:
        raise invalid("resume", f"At most {MAX_ENTRIES} entries.")
    entries = [_parsed(Entry, each, f"resume.{place}") for place, each in enumerate(raw)]
    if len({entry.interrupt_id for entry in entries}) < len(entries):
        raise invalid("resume", "One interrupt is answered twice.")
    return entries


def _one(entry: Entry, asked: Checkpoint, path: str) -> Given:
    if entry.status == "cancelled":
        return Given(asked, CANCELLED)
    if asked.scenario is Scenario.HIGH_RISK:
        return _decision(_parsed(Decision, entry.payload, path), asked, path)
    if isinstance(entry.payload, str):
        return Given(asked, ANSWER, clean(entry.payload))
    said = _parsed(Said, entry.payload, path)
    return Given(asked, said.action, None if said.input is None else clean(said.input))


def _decision(decision: Decision, asked: Checkpoint, path: str) -> Given:
    if not decision.approved:
        if decision.edited_args is not None or decision.for_session:
            raise invalid(path, "editedArgs and forSession belong to an approval.")
        return Given(asked, DENY, None if decision.reason is None else clean(decision.reason))
    if decision.edited_args is not None:
        if decision.for_session:
            raise invalid(path, "editedArgs are approved once, not for the session.")
        return Given(asked, EDIT, decision.edited_args)
    return Given(asked, APPROVE_SESSION if decision.for_session else APPROVE)


def _parsed(model: type[Any], value: Any, path: str) -> Any:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        raise invalid(".".join([path, *(str(p) for p in first["loc"])]), first["msg"]) from error


def _digest(body: RunInput) -> str:
    entries = cast("Sequence[Mapping[str, Any]]", body.resume or ())
    document = json.dumps([body.thread_id, entries], sort_keys=True, default=str)
    return hashlib.sha256(document.encode("utf-8", "replace")).hexdigest()


async def restated(
    services: Services, run: Run, body: RunInput, asked: Sequence[Checkpoint]
) -> AsyncGenerator[bytes]:
    """The open questions once more, under the request's own run id. Nothing of it is kept."""
    yield sse.HELLO
    session = session_key(run.owner_id, run.thread_id)
    messages = sse.bounded(await services.messages.conversation(session, 2**62))
    answered = {message.tool_call_id for message in messages}
    waiting = [
        call.id for message in messages for call in message.tool_calls if call.id not in answered
    ]
    reader = Reader(modern=body.modern, holds=body.holds, unanswered=tuple(waiting))
    now = int(run.created_at.timestamp() * 1000)
    started = RunStarted(run.thread_id, body.run_id, 0)
    paused = RunPaused(tuple(str(each.id) for each in asked), 0, Usage())
    for seq, event in enumerate((started, paused), 1):
        questions = [agui_shapes.interrupt(each) for each in asked]
        item = Recorded(position(seq), now, event)
        reader, numbered = agui.encode(reader, item, messages, questions)
        for one in numbered:
            yield sse.emit(Numbered(None, one.frame))
