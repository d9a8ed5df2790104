"""Writes frames at the pace asked for, and notices at once when the client goes away."""

import asyncio
from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

from standin.directives import Behaviour
from standin.frames import Frames, error
from standin.journal import Journal, Outcome, Record

LABEL = {"x-standin": "not-a-language-model"}


class Answer:
    """An ASGI response. Without pace or accident the whole answer is a single write."""

    def __init__(
        self,
        frames: Frames,
        media_type: str,
        behaviour: Behaviour,
        journal: Journal,
        record: Record,
    ) -> None:
        self._frames = frames
        self._headers = {"content-type": media_type, "cache-control": "no-cache", **LABEL}
        self._do = behaviour
        self._journal = journal
        self._record = record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.Event()
        watch = asyncio.create_task(_watch(receive, gone))
        outcome = Outcome.ABORTED  # also when the server is stopped meanwhile
        try:
            outcome = await self._write(send, gone)
        finally:
            watch.cancel()
            self._journal.close(self._record, outcome)

    async def _write(self, send: Send, gone: asyncio.Event) -> Outcome:
        """Returning without a last body makes the server drop the connection."""
        if self._do.first_delay_ms and await _passes(self._do.first_delay_ms / 1000, gone):
            return Outcome.ABORTED
        await send({"type": "http.response.start", "status": 200, "headers": _raw(self._headers)})
        body, first = self._frames.body, self._frames.first
        until = self._accident_at()
        if until is not None:
            body = body[:until]
        if self._do.delay_ms or self._do.flush:
            await _body(send, first)
            await self._pace(send, body, gone)
        elif until is not None:
            await _body(send, first + b"".join(body))
        else:
            await _body(send, first + b"".join(body) + self._frames.last, more=False)
            self._record.written = len(body)
            return Outcome.COMPLETED
        if gone.is_set():
            return Outcome.ABORTED
        self._record.written = len(body)
        return await self._end(send, gone)

    def _accident_at(self) -> int | None:
        do = self._do
        return next(
            (n for n in (do.stall_after, do.cut_after, do.error_after) if n is not None), None
        )

    async def _pace(self, send: Send, body: tuple[bytes, ...], gone: asyncio.Event) -> None:
        clock = asyncio.get_running_loop()
        due = clock.time()
        for number, frame in enumerate(body, 1):
            due += self._do.delay_ms / 1000
            await asyncio.sleep(max(0.0, due - clock.time()))
            if gone.is_set():
                return
            await _body(send, frame)
            self._record.written = number

    async def _end(self, send: Send, gone: asyncio.Event) -> Outcome:
        if self._do.stall_after is not None:
            await gone.wait()
            return Outcome.ABORTED
        if self._do.cut_after is not None:
            return Outcome.CUT
        if self._do.error_after is not None:
            failure = error("As told by a directive.", "server_error", self._do.code)
            await _body(send, b"data: " + failure + b"\n\n", more=False)
            return Outcome.FAILED
        await _body(send, self._frames.last, more=False)
        return Outcome.COMPLETED


async def _watch(receive: Receive, gone: asyncio.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()


async def _passes(seconds: float, gone: asyncio.Event) -> bool:
    """Wait; True at once if the client leaves meanwhile."""
    try:
        await asyncio.wait_for(gone.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def _body(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]
