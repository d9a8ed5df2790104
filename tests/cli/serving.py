"""Serve an ASGI app over a real socket for the length of a test."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp

from cli.stack.ports import HOST, free_port


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncGenerator[str]:
    """Yields the base URL."""
    port = free_port()
    config = uvicorn.Config(app, host=HOST, port=port, log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://{HOST}:{port}"
    server.should_exit = True
    await running
