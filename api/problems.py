"""Every error leaves as application/problem+json (RFC 9457), through the one handler below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from temporalio.service import RPCError, RPCStatusCode

from adapters.postgres.pool import LOST
from domain.errors import InvalidInput, NotFound, RunConflict, SessionBusy

_log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2
_AWAY = (
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.INTERNAL,  # a connection that broke while it was being answered
    RPCStatusCode.UNKNOWN,
)
OPENAI = "/v1/"
"""Below it errors have OpenAI's shape."""
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 500: "server_error"}
_SLUGS = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}


@dataclass(slots=True)
class Problem(Exception):
    """`type` is a stable slug: clients switch on it, never on the text."""

    type: str
    status: int
    detail: str
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    headers: dict[str, str] = field(default_factory=dict[str, str])


class FieldError(BaseModel):
    field: str = Field(description="Dotted path of what is wrong", examples=["messages.0.content"])
    message: str


class ProblemBody(BaseModel):
    """RFC 9457. Further members depend on `type`."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(examples=["/problems/session-busy"])
    title: str
    status: int
    detail: str
    errors: list[FieldError] | None = None


def invalid(path: str, message: str) -> Problem:
    """422 about one field, given as its dotted path."""
    return _invalid([{"field": path, "message": message}])


def unavailable(detail: str) -> Problem:
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return Problem("unavailable", 503, detail, headers=headers)


def _invalid(errors: list[dict[str, str]]) -> Problem:
    named = "; ".join(f"{error['field']}: {error['message']}" for error in errors[:5])
    return Problem("invalid-request", 422, f"The request is not valid. {named}", {"errors": errors})


def of(error: Exception) -> Problem:
    """The problem that an error is, to somebody outside."""
    match error:
        case Problem():
            return error
        case RequestValidationError():
            return _invalid([_field_error(e) for e in error.errors()])
        case InvalidInput():
            return invalid(error.field, str(error))
        case NotFound():
            return Problem("not-found", 404, str(error))
        case SessionBusy():
            extra = {"activeRunId": error.active_run_id}
            return Problem("session-busy", 409, str(error), extra)
        case RunConflict():
            return Problem("run-conflict", 409, str(error))
        case HTTPException():
            slug, headers = _SLUGS.get(error.status_code, "http-error"), dict(error.headers or {})
            return Problem(slug, error.status_code, str(error.detail), headers=headers)
        case RPCError() if error.status in _AWAY:
            return unavailable("The workflow engine can't be reached. Try again.")
        case _ if isinstance(error, LOST):
            return unavailable("The database can't be reached. Try again.")
        case _:
            return Problem("internal", 500, "Something went wrong on the server.")


def _field_error(error: Mapping[str, Any]) -> dict[str, str]:
    where: Sequence[Any] = error["loc"]
    path = [str(part) for part in where if part not in ("body", "query", "header", "path")]
    message = str(error["msg"]).removeprefix("Value error, ")
    return {"field": ".".join(path) or "body", "message": message}


def response(problem: Problem) -> JSONResponse:
    body = {
        "type": f"/problems/{problem.type}",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        **problem.extra,
    }
    return JSONResponse(body, problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


async def _handle(request: Request, error: Exception) -> JSONResponse:
    return answered(request.url.path, error)


def answered(path: str, error: Exception) -> JSONResponse:
    """Any error as a response; our own failures are logged."""
    problem = of(error)
    if problem.status == 500:
        _log.error("request_failed", path=path, exc_info=error)
    elif problem.status > 500:
        _log.warning("request_refused", path=path, error=repr(error))
    return as_openai(problem) if path.startswith(OPENAI) else response(problem)


def as_openai(problem: Problem) -> JSONResponse:
    """The same for clients that expect OpenAI's errors."""
    named: list[dict[str, str]] = problem.extra.get("errors") or [{}]
    error = {
        "message": problem.detail,
        "type": _OPENAI_TYPES.get(problem.status, "invalid_request_error"),
        "code": problem.type.replace("-", "_"),
        "param": named[0].get("field"),
    }
    status = 400 if problem.status == 422 else problem.status
    return JSONResponse({"error": error}, status, headers=problem.headers)


def install(app: FastAPI) -> None:
    kinds: tuple[type[Exception], ...] = (
        *(Problem, RequestValidationError, InvalidInput, NotFound, SessionBusy, RunConflict),
        *(HTTPException, RPCError, *LOST, Exception),
    )
    for kind in kinds:
        app.add_exception_handler(kind, _handle)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route for OpenAPI: these problems, and those that any route may give."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted({401, 422, 503, *statuses})
    }
