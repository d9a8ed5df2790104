"""`varve health api|worker`: the health check of a container, about the process in it."""

import asyncio
import os
import socket
from enum import StrEnum
from typing import Annotated

import httpx2
import typer
from temporalio.service import RPCError

from adapters.settings import Settings, load
from cli.output import FAILED, aside, failures
from cli.stack.ports import HOST
from cli.stack.program import answers, pollers

app = typer.Typer()


class Process(StrEnum):
    API = "api"
    WORKER = "worker"


@app.command()
def health(process: Annotated[Process, typer.Argument()]) -> None:
    """Whether the API or worker on this host does its work; exit code 1 if not."""
    with failures():
        settings = load(os.environ)
        check = _api if process is Process.API else _worker
        try:
            asyncio.run(check(settings))
        except (httpx2.HTTPError, RPCError, RuntimeError, LookupError) as error:
            aside.print(str(error) or type(error).__name__, markup=False)
            raise typer.Exit(FAILED) from error


async def _api(settings: Settings) -> None:
    await answers(f"http://{HOST}:{settings.api_port}/api/v1/agent/health/ready")(os.getpid())


async def _worker(settings: Settings) -> None:
    address, namespace = settings.temporal_address, settings.temporal_namespace
    host = socket.gethostname()
    found = await pollers(address, namespace, settings.run_queue)
    if not any(identity.endswith(f"@{host}") for identity in found):
        raise LookupError(f"no worker on {host} polls the queue {settings.run_queue}")
