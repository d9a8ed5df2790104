"""`python -m api`: serve until SIGTERM or SIGINT, then end open streams in order."""

import socket
import sys

import uvicorn

from adapters import logs
from adapters.settings import SettingsError, load
from api.app import create_app

DRAIN_S = 10


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Streams would hold up the shutdown until they are cut off: end them with a word."""
        app = self.config.app
        if hub := getattr(getattr(app, "state", None), "hub", None):
            hub.drain()
        await super().shutdown(sockets)


def main() -> None:
    try:
        settings = load()
    except SettingsError as error:
        sys.exit(f"varve api: {error}")
    logs.configure(settings.log_level, settings.log_format)
    config = uvicorn.Config(
        create_app(settings),
        host=settings.api_host,
        port=settings.api_port,
        loop="uvloop",
        log_config=None,  # uvicorn's lines go through ours
        log_level=settings.log_level,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_S,
    )
    _Server(config).run()


if __name__ == "__main__":
    main()
