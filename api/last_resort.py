"""What nobody foresaw is answered here: inside CORS, so that a browser may read that it failed."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import answered


class LastResort:
    """ASGI middleware. An answer that has begun can't be taken back: then the error goes on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if scope["type"] != "http" or begun:
                raise
            await answered(scope["path"], error)(scope, receive, send)
