"""Embedded Valkey (speaks Redis): live streams only, so nothing is ever written to disk."""

import os
from pathlib import Path

from redis.asyncio import Redis

from cli.stack.binaries import valkey_server
from cli.stack.ports import HOST, free_port
from cli.stack.process import Child


class Valkey:
    """A server on `port` (0: a free one), with a password when one is given."""

    component = "Valkey"

    def __init__(
        self, data: Path, log: Path, *, port: int = 0, password: str | None = None
    ) -> None:
        self.data = data.resolve()
        self.port = port
        self.child = Child(self.component, log)
        self._password = password

    @property
    def url(self) -> str:
        secret = f":{self._password}@" if self._password else ""
        return f"redis://{secret}{HOST}:{self.port}/0"

    async def start(self) -> None:
        """Start the server, return when it answers."""
        self.data.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        await self.child.spawn([str(valkey_server()), str(self._configuration())])
        await self.child.ready(self._answers)

    async def stop(self) -> None:
        await self.child.stop()

    async def _answers(self) -> None:
        async with Redis.from_url(self.url) as client:
            await client.execute_command("PING")

    def _configuration(self) -> Path:
        """A file rather than arguments: arguments show the password to everyone on the machine."""
        lines = [
            f"bind {HOST}",
            f"port {self.port}",
            f'dir "{self.data}"',
            'save ""',
            "appendonly no",
            "set-proc-title no",  # a leftover is recognised by its command line
        ]
        if self._password:
            lines.append(f"requirepass {self._password}")
        path = self.data / "valkey.conf"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write("\n".join(lines) + "\n")
        return path
