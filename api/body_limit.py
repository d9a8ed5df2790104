"""Refuse bodies that are too large, while they arrive: ASGI middleware."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import of, response

MAX_BODY = 8 * 1024 * 1024


class BodyLimit:
    def __init__(self, app: ASGIApp, limit: int = MAX_BODY) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._limit:
            await response(of(self._problem()))(scope, receive, send)
            return
        await self._app(scope, self._counting(receive), send)

    def _counting(self, receive: Receive) -> Receive:
        """The same messages; raises where they come to more than was allowed."""
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._limit:
                raise self._problem()
            return message

        return counted

    def _problem(self) -> HTTPException:
        # Not a Problem: FastAPI turns what reading a body raises into a 400, all but this kind.
        return HTTPException(413, f"A request body may have {self._limit} bytes at most.")
