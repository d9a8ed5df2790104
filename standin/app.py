"""The HTTP surface: the OpenAI endpoints, and /control for tests."""

from collections.abc import Awaitable
from typing import Any, Protocol

import jiter
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from standin import frames
from standin.directives import BadDirective, Behaviour, directive, parse
from standin.extraction import asked_of
from standin.journal import Journal, Outcome, Record
from standin.request import ChatRequest, Refused, read
from standin.rules import last_user_text, plan, turn_of
from standin.streaming import LABEL, Answer

MODELS = ("qwen3.5-30b-a3b", "qwen3.5-flash")
NOTICE = "A rule-based stand-in. Not a language model."


class Respond(Protocol):
    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]: ...


class Control(BaseModel):
    """The body of POST /control; what is left out is left alone."""

    model_config = ConfigDict(extra="forbid")
    reset: bool = False
    always: str | None = None  # directive words for every call without a directive; "" ends it
    next: list[str] = []  # directive words for the coming calls, one entry each


def create_app() -> Starlette:
    """The application, with a journal of its own."""
    server = _Server(Journal())
    return Starlette(
        routes=[
            Route("/v1/chat/completions", server.chat, methods=["POST"]),
            Route("/v1/models", server.models),
            Route("/health", server.health),
            Route("/control", server.control, methods=["POST"]),
            Route("/control/requests", server.requests),
        ]
    )


class _Server:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def chat(self, request: Request) -> Respond:
        raw = await request.body()
        try:
            body: Any = jiter.from_json(raw)  # refuses lone surrogates, as providers do
        except ValueError:
            body = None
        key = request.headers.get("authorization", "").startswith("Bearer ")
        peer = request.client.port if request.client else 0
        record = self._journal.open(body, authorized=key, peer=peer)
        try:
            asked = read(body)
            extraction = asked_of(asked)
            heard = extraction.outside if extraction else last_user_text(asked)
            turn = extraction.turn if extraction else turn_of(asked)
            said, directives = parse(heard)
            behaviour = self._journal.behaviour(directives, turn)
        except (Refused, BadDirective) as error:
            return self._fail(record, Behaviour(status=400), str(error))
        if behaviour.status is not None:
            return self._fail(record, behaviour, "As told by a directive.")
        return self._answer(record, asked, said, behaviour)

    def _answer(
        self, record: Record, asked: ChatRequest, said: str, behaviour: Behaviour
    ) -> Answer:
        answer = plan(asked, said, behaviour)
        if asked.stream:
            out = frames.streamed(asked, answer, behaviour)
            return Answer(out, "text/event-stream", behaviour, self._journal, record)
        out = frames.Frames(b"", (), frames.whole(asked, answer))
        return Answer(out, "application/json", behaviour, self._journal, record)

    def _fail(self, record: Record, behaviour: Behaviour, message: str) -> Response:
        self._journal.close(record, Outcome.FAILED)
        headers = dict(LABEL)
        if behaviour.retry_after is not None:
            headers["retry-after"] = f"{behaviour.retry_after:g}"
        status = behaviour.status or 500
        if behaviour.html:
            page = f"<html><body><h1>{status}</h1></body></html>"
            return Response(page, status, headers, "text/html")
        kind = "invalid_request_error" if status < 500 else "server_error"
        body = frames.error(message, kind, behaviour.code)
        return Response(body, status, headers, "application/json")

    async def models(self, request: Request) -> Response:
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": NOTICE} for name in MODELS
        ]
        return JSONResponse({"object": "list", "data": data}, headers=LABEL)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "notice": NOTICE}, headers=LABEL)

    async def control(self, request: Request) -> Response:
        try:
            wanted = Control.model_validate_json(await request.body())
            queued = [directive(words) for words in wanted.next]
            always = None if wanted.always is None else wanted.always.strip()
            standing = (directive(always),) if always else ()
        except (ValidationError, BadDirective) as error:
            return JSONResponse({"error": {"message": str(error)}}, 400, headers=LABEL)
        if wanted.reset:
            self._journal.reset()
        if always is not None:
            self._journal.always = standing
        self._journal.queued.extend(queued)
        return JSONResponse({"status": "ok"}, headers=LABEL)

    async def requests(self, request: Request) -> Response:
        report = self._journal.report(request.query_params.get("contains", ""))
        return JSONResponse(report, headers=LABEL)
