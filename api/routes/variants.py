"""Answer once more, or go on elsewhere from what was said."""

from fastapi import APIRouter, Header, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api import sse
from api.examples import SSE
from api.identity import RunWriter
from api.problems import Problem, documented
from api.run_input import MAX_ID, own_identifier
from api.starting import start
from api.state import Of
from api.views import RunView, SessionView
from domain.errors import NotFound
from domain.identity import Caller
from domain.runs import NewRun, Run

router = APIRouter(prefix="/runs", tags=["runs"])


class _Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", populate_by_name=True)


class RegenerateBody(_Body):
    run_id: str = Field(min_length=1, max_length=MAX_ID, description="Of the new run")


class ForkBody(_Body):
    thread_id: str = Field(min_length=1, max_length=MAX_ID, description="Of the new session")
    message_id: str | None = Field(
        None, min_length=1, max_length=MAX_ID, description="Up to this one; absent: the run's last"
    )


@router.post(
    "/{run_id:path}/regenerate",
    summary="Answer the same message once more",
    response_class=StreamingResponse,
    responses={
        200: {"description": "AG-UI events until the run ends", "content": SSE},
        202: {"description": "With `Accept: application/json`: the run", "model": RunView},
        **documented(403, 404, 409),
    },
)
async def regenerate_run(
    run_id: str,
    body: RegenerateBody,
    services: Of,
    who: RunWriter,
    accept: str = Header("text/event-stream", include_in_schema=False),
) -> Response:
    """Of the latest run of its session, once it has ended. What it said is out of the conversation
    then, and what it was asked is answered again. The stream is that of the new run."""
    new_id = own_identifier("runId", body.run_id)
    old = await services.runs.get(who.id, run_id)
    try:
        run = await services.runs.get(who.id, new_id)  # the same request once more
    except NotFound:
        run = await _again(services, who, old, new_id)
    if "application/json" in accept and "text/event-stream" not in accept:
        return JSONResponse(RunView.of(run).model_dump(mode="json", by_alias=True), 202)
    return sse.stream(services, run, modern=run.request.protocol is not None, cursor=None)


async def _again(services: Of, who: Caller, old: Run, new_id: str) -> Run:
    if not old.status.ended:
        raise Problem("session-busy", 409, "The run is at work.", {"activeRunId": old.run_id})
    if not await services.variants.is_latest(old.key):
        try:
            return await services.runs.get(who.id, new_id)  # a twin was faster
        except NotFound:
            words = "Another run came after it: fork instead."
            raise Problem("not-latest", 409, words) from None
    await services.variants.supersede(old.key, new_id)
    new = NewRun(who.id, old.thread_id, new_id, old.request, (), again=True)
    run, _ = await start(services, who, new)
    return run


@router.post(
    "/{run_id:path}/fork",
    summary="A new session with what was said so far",
    status_code=201,
    responses=documented(403, 404),
)
async def fork_run(run_id: str, body: ForkBody, services: Of, who: RunWriter) -> SessionView:
    """It goes on by itself. The session it came from stays as it is."""
    run = await services.runs.get(who.id, run_id)
    thread = own_identifier("threadId", body.thread_id)
    await services.variants.fork(
        who.id, run.session_key, thread, run_key=run.key, message_id=body.message_id
    )
    return SessionView.of(await services.sessions.get(who.id, thread))
