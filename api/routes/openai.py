"""`/v1`: for clients that speak OpenAI's chat completions (docs/protocols/agent/openai.md)."""

import json
import time
from collections.abc import AsyncGenerator
from hashlib import sha256
from typing import Annotated, Any
from uuid import uuid4

import structlog
from fastapi import APIRouter, Header, Response
from fastapi.responses import JSONResponse, StreamingResponse

from api import completions, problems
from api.completions import DEFAULT_MODEL, ChatBody, Conversation, Spoken
from api.identity import RunReader, RunWriter
from api.problems import Problem, invalid
from api.run_input import own_identifier
from api.starting import start
from api.state import Of, Services
from domain.identity import Caller
from domain.ids import session_key
from domain.messages import Role
from domain.runs import NewRun, Run, RunRequest

router = APIRouter(prefix="/v1", tags=["openai"], include_in_schema=False)

_log = structlog.get_logger(__name__)

_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_KEEPALIVE = b": keep-alive\n\n"


@router.get("/models")
async def list_models(services: Of, who: RunReader) -> dict[str, Any]:
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": "varve"}
        for name in (DEFAULT_MODEL, *_names(services, who))
    ]
    return {"object": "list", "data": data}


@router.post("/chat/completions")
async def create_completion(
    body: ChatBody,
    services: Of,
    who: RunWriter,
    session: Annotated[str | None, Header(alias="x-varve-session", max_length=200)] = None,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> Response:
    """A run of a durable session. Going away does not stop it."""
    completions.check(body)
    said = completions.conversation_of(body)
    new = await _new_run(services, who, body, said, session or body.user, idempotency_key)
    if body.profile not in (None, *_names(services, who)):
        raise invalid("model", f"There is no model {body.model!r}; GET /v1/models lists them.")
    run, _ = await start(services, who, new)
    headers = {"x-varve-session": run.thread_id, "x-varve-run": run.run_id}
    headers = {name: value for name, value in headers.items() if value.isascii()}
    if body.stream:
        frames = _frames(services, run, body, said)
        return StreamingResponse(
            frames, media_type="text/event-stream", headers={**_HEADERS, **headers}
        )
    spoken = Spoken()
    async for _ in completions.heard(services, run, spoken):
        pass
    await _recognise(services, run, said, spoken.text)
    return JSONResponse(completions.completion(run.run_id, body.model, spoken), headers=headers)


def _names(services: Services, who: Caller) -> list[str]:
    return [profile.name for profile in services.profiles.visible_to(who.role)]


async def _new_run(
    services: Services,
    who: Caller,
    body: ChatBody,
    said: Conversation,
    session: str | None,
    idempotency_key: str | None,
) -> NewRun:
    """With a session the server's history is the truth, and only what is new is taken. Without
    one the conversation is recognised by what was said so far, or brought into a new session."""
    # The same key is the same run, with the same messages in it.
    digest = sha256(f"{who.id}:{idempotency_key}".encode()).hexdigest()[:32]
    id = f"chatcmpl-{digest if idempotency_key else uuid4().hex}"
    thread, history = session, said.before
    if thread is None and said.before:
        print_ = completions.fingerprint(said.before)
        thread = await services.sessions.recognised(who.id, print_)
    if thread is not None:
        history = ()
    now = [(Role.USER, text) for text in said.now]
    return NewRun(
        owner_id=who.id,
        thread_id=own_identifier("user", thread or id),
        run_id=id,
        request=RunRequest(profile=body.profile, context=said.context),
        messages=completions.messages(id, now, len(history)),
        history=completions.messages(id, history),
    )


async def _recognise(services: Services, run: Run, said: Conversation, answer: str) -> None:
    """Know the conversation again when the client sends it back with this answer."""
    now = tuple((Role.USER, text) for text in said.now)
    whole = (*said.before, *now, (Role.ASSISTANT, answer))
    session = session_key(run.owner_id, run.thread_id)
    await services.sessions.keep_fingerprint(session, completions.fingerprint(whole))


async def _frames(
    services: Services, run: Run, body: ChatBody, said: Conversation
) -> AsyncGenerator[bytes]:
    """Never raises: what goes wrong is an error in the stream."""
    created, spoken = int(time.time()), Spoken()

    def frame(delta: dict[str, Any], finish: str | None = None) -> bytes:
        made = completions.chunk(run.run_id, body.model, created, delta, finish)
        return _data(made)

    yield frame({"role": "assistant", "content": ""})
    try:
        async for piece in completions.heard(services, run, spoken):
            yield frame({"content": piece}) if piece else _KEEPALIVE
        await _recognise(services, run, said, spoken.told)
    except Exception as error:
        if not isinstance(error, Problem):
            _log.exception("completion_broke", run_key=str(run.key))
        yield b"data: " + bytes(problems.as_openai(problems.of(error)).body) + b"\n\n"
        return
    yield frame({}, spoken.finish)
    if body.stream_options is not None and body.stream_options.include_usage:
        last = completions.chunk(run.run_id, body.model, created, {})
        yield _data({**last, "choices": [], "usage": completions.usage_of(spoken.usage)})
    yield b"data: [DONE]\n\n"


def _data(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"
