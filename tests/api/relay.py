"""A TCP relay on a free port: the network between the API and one of its servers, to be cut."""

import asyncio
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit


class Relay:
    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._target = ("127.0.0.1", 0)
        self._writers: set[asyncio.StreamWriter] = set()
        self._port = 0

    async def __aenter__(self) -> "Relay":
        await self.mend()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.cut()

    def url(self, target: str) -> str:
        """`target` by way of this relay: a URL, or host:port."""
        bare = "//" not in target
        parts = urlsplit(f"//{target}" if bare else target)
        self._target = (parts.hostname or "", parts.port or 0)
        here = f"127.0.0.1:{self._port}"
        if bare:
            return here
        who, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{who}{at}{here}"))

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Refuse new connections and drop those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_connection(*self._target)
        self._writers |= {writer, to}
        try:
            await asyncio.gather(_pump(reader, to), _pump(there, writer))
        finally:
            self._writers -= {writer, to}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
