"""Runs: start, watch, list, interrupt."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from adapters.postgres.runs import RunFilter, Segment
from api import paging, sse
from api.examples import RUN_INPUT, SSE
from api.fields import Text
from api.identity import RunReader, RunWriter
from api.paging import Cursor, Filter, Limit
from api.problems import Problem, documented, invalid
from api.resuming import restated, resume
from api.run_input import MAX_WAIT_S, RunInput, check_profile, identifier, new_run, options_of
from api.starting import start
from api.state import Of, Services
from api.stopping import stop
from api.views import AnsweredRunView, InterruptView, Page, RunView
from api.waiting import over
from domain.agui_reader import end_of
from domain.errors import NotFound, SessionBusy
from domain.events import RunStatus, split
from domain.messages import Origin
from domain.runs import Run

router = APIRouter(prefix="/runs", tags=["runs"])


class InterruptBody(BaseModel):
    reason: Text = Field("", max_length=1_000, description="Why, for the record and the client")


@router.post(
    "",
    summary="Start a run, or attach to it",
    response_class=StreamingResponse,
    responses={
        200: {"description": "AG-UI events until the run ends", "content": SSE},
        202: {"description": "With `Accept: application/json`: the run", "model": RunView},
        **documented(403, 409, 413),
    },
    openapi_extra=RUN_INPUT,
)
async def start_run(
    body: RunInput,
    request: Request,
    services: Of,
    who: RunWriter,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            description="The same key with the same content finds the same run, whatever its runId",
        ),
    ] = None,
    prefer: Annotated[
        str | None, Header(description="`wait=10`: as the option wait_s (RFC 7240)")
    ] = None,
) -> Response:
    """Takes an AG-UI RunAgentInput. The same `runId` with the same content attaches to the run
    and replays it from the beginning; with other content it is 409."""
    if body.resume:
        segment = await resume(services, body, who)
        return await _followed(services, segment, request, body)
    new = new_run(body, who, idempotency_key)
    if new.request.webhook is not None and services.settings.webhook_secret is None:
        raise invalid("forwardedProps.varve.webhook", "This server has no VARVE_WEBHOOK_SECRET.")
    check_profile(new, [profile.name for profile in services.profiles.visible_to(who.role)])
    try:
        run, _ = await start(services, who, new)
    except SessionBusy as busy:
        standing = await services.runs.get(who.id, busy.active_run_id)
        asked = await services.checkpoints.open_of_session(who.id, standing.session_key)
        if not asked or _wants_json(request):
            raise
        return sse.streamed(restated(services, standing, body, asked))
    if _wants_json(request):
        return await _as_json(services, run, _wait_s(body, prefer))
    return sse.stream(services, run, modern=body.modern, cursor=None, holds=body.holds)


async def _as_json(services: Services, run: Run, wait_s: float | None) -> Response:
    """202 with the run; 200 with its answer, if that is waited for and it comes in time."""
    if wait_s is not None and await over(services, run, wait_s, or_paused=True):
        now = await services.runs.get_by_key(run.key)
        if now.status.ended:
            view = AnsweredRunView.of(now).model_copy(
                update={"answer": await services.messages.answer(now.key)}
            )
            return JSONResponse(view.model_dump(mode="json", by_alias=True))
    now = await services.runs.get_by_key(run.key)
    return JSONResponse(RunView.of(now).model_dump(mode="json", by_alias=True), 202)


def _wait_s(body: RunInput, prefer: str | None) -> float | None:
    """How long the end of the run is waited for: an option, or RFC 7240's `Prefer: wait=10`."""
    given = options_of(body).wait_s
    if given is not None or prefer is None:
        return given
    for preference in prefer.split(","):
        name, _, value = preference.partition("=")
        if name.strip().lower() == "wait" and value.strip().isdecimal():
            return min(float(value), MAX_WAIT_S)
    return None


async def _followed(
    services: Services, segment: Segment, request: Request, body: RunInput
) -> Response:
    if _wants_json(request):
        view = RunView.of(segment.run)
        return JSONResponse(view.model_dump(mode="json", by_alias=True), 202)
    return sse.stream(
        services,
        segment.run,
        modern=body.modern,
        cursor=None,
        holds=body.holds,
        segment=segment.number,
    )


@router.get("", summary="List runs, newest first", responses=documented(403))
async def list_runs(
    services: Of,
    who: RunReader,
    status: RunStatus | None = None,
    profile: Filter = None,
    executor: Filter = None,
    origin: Origin | None = None,
    thread_id: Filter = None,
    since: Annotated[datetime | None, Query(description="Created at or after")] = None,
    until: Annotated[datetime | None, Query(description="Created before")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[RunView]:
    where = RunFilter(
        status=status,
        profile=profile,
        executor=executor,
        origin=origin,
        since=paging.instant("since", since),
        until=paging.instant("until", until),
        before=paging.decode(cursor),
        thread_id=thread_id,
    )
    runs = await services.runs.list(who.id, where, limit)
    last = paging.encode(runs[-1].created_at, runs[-1].key) if len(runs) == limit else None
    return Page(items=[RunView.of(run) for run in runs], next_cursor=last)


@router.get(
    "/{run_id:path}/events",
    summary="Follow a run",
    response_class=StreamingResponse,
    responses={
        200: {"description": "AG-UI events until the run ends", "content": SSE},
        204: {"description": "The run has ended and the cursor is at its last event"},
        **documented(400, 403, 404),
    },
)
async def follow_run(
    run_id: str,
    services: Of,
    who: RunReader,
    last_event_id: Annotated[
        str | None, Header(description="Id of the last event held; absent: from the beginning")
    ] = None,
    cursor: Annotated[
        str | None, Query(alias="last_event_id", description="The same, where headers can't be set")
    ] = None,
    protocol_version: Annotated[
        str | None, Query(description="AG-UI version to speak; absent: the one of the request")
    ] = None,
) -> Response:
    segment = await services.runs.segment(who.id, run_id)
    run = segment.run
    after = _cursor(last_event_id or cursor, run)
    if after is not None and await _has_all(services, segment, after):
        return Response(status_code=204)
    spoken = protocol_version or run.request.protocol
    return sse.stream(
        services, run, modern=spoken is not None, cursor=after, segment=segment.number
    )


@router.post(
    "/{run_id:path}/interrupt",
    summary="Stop a run and keep what is done",
    status_code=202,
    responses=documented(403, 404),
)
async def interrupt_run(
    run_id: str, services: Of, who: RunWriter, body: InterruptBody | None = None
) -> InterruptView:
    """The run ends as `interrupted` within about a second. Interrupting an ended run does nothing
    and says so."""
    reason = (body.reason if body else "") or "Interrupted by the user."
    try:
        run = await services.runs.get(who.id, run_id)
    except NotFound:
        identifier("runId", run_id)
        await services.runs.stop_early(who.id, run_id, reason)
        try:
            run = await services.runs.get(who.id, run_id)
        except NotFound:
            return _interrupt_view(run_id, True, None, _KEPT)
    if run.status.ended:
        return _interrupt_view(
            run.run_id, False, run.status, "The run had ended already; nothing was done."
        )
    await stop(services, who, run, reason)
    run = await services.runs.get(who.id, run_id)
    detail = "The run is being stopped; what is done is kept."
    return _interrupt_view(run.run_id, True, run.status, detail)


_KEPT = "There is no such run yet. If it arrives within a minute it is stopped at once."


@router.get("/{run_id:path}", summary="A run", responses=documented(403, 404))
async def get_run(run_id: str, services: Of, who: RunReader) -> RunView:
    return RunView.of(await services.runs.get(who.id, run_id))


def _interrupt_view(
    run_id: str, interrupted: bool, status: RunStatus | None, detail: str
) -> InterruptView:
    return InterruptView(run_id=run_id, interrupted=interrupted, status=status, detail=detail)


async def _has_all(services: Services, segment: Segment, after: int) -> bool:
    """Whether nothing comes behind this cursor any more."""
    run = segment.run
    if run.status.ended and segment.number == run.segment:
        return after >= end_of(run.last_seq)
    paused = await services.events.paused_at(run.key, segment.number)
    return paused is not None and after >= end_of(paused)


def _wants_json(request: Request) -> bool:
    accept = request.headers.get("accept", "")
    return "application/json" in accept and "text/event-stream" not in accept


def _cursor(value: str | None, run: Run) -> int | None:
    """Raises 400 for what can't be the id of an event of this run."""
    if not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        raise Problem("bad-cursor", 400, "Last-Event-ID must be the id of an event: digits only.")
    if not 1 <= split(int(value))[0] <= run.last_seq:
        raise Problem("bad-cursor", 400, f"No event of this run has the id {value}.")
    return int(value)
