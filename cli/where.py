"""Which stack a command talks to: what the environment says, else the one running in `.varve/`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from temporalio.client import Client
from temporalio.service import RPCError

from adapters.settings import Settings, load
from adapters.temporal import connect
from cli.stack.errors import StackError
from cli.stack.state import Endpoints, State

DEFAULT_STATE = Path(".varve")

StateOption = Annotated[
    Path, typer.Option("--state", help="State folder of the local stack.", show_default=True)
]


def running(folder: Path) -> Endpoints | None:
    return State(folder).endpoints()


def database_url(folder: Path, env: Mapping[str, str] = os.environ) -> str:
    """Raises StackError when nothing names a database."""
    if url := env.get("VARVE_DATABASE_URL"):
        return url
    if found := running(folder):
        return found.database_url
    raise _nothing("database", folder, "VARVE_DATABASE_URL")


def settings(folder: Path, env: Mapping[str, str] = os.environ) -> Settings:
    """What a process of that stack would get, for commands that look at database and engine.

    Raises StackError when nothing names a database, SettingsError for what is malformed.
    """
    found = running(folder)
    known = {"VARVE_DATABASE_URL": database_url(folder, env), "VARVE_REDIS_URL": "unset"}
    if found:
        known |= {
            "VARVE_REDIS_URL": found.redis_url,
            "VARVE_TEMPORAL_ADDRESS": found.temporal_address,
        }
    return load({**known, **env})


async def engine(settings: Settings) -> Client:
    """A client of the workflow engine. Raises StackError when it does not answer."""
    try:
        return await connect(settings.temporal_address, settings.temporal_namespace)
    except (RuntimeError, RPCError) as error:  # what temporalio raises
        raise StackError(
            "Temporal",
            f"{settings.temporal_address} or its namespace {settings.temporal_namespace!r} "
            f"does not answer: {error}",
            remedy="check VARVE_TEMPORAL_ADDRESS and VARVE_TEMPORAL_NAMESPACE",
        ) from error


def api(folder: Path, env: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """(URL, key) of the API. Raises StackError when nothing names one."""
    found = running(folder)
    url = env.get("VARVE_API_URL") or (found.api_url if found else None)
    key = env.get("VARVE_API_KEY") or (found.demo_api_key if found else None)
    if not url:
        raise _nothing("API", folder, "VARVE_API_URL")
    if not key:
        raise StackError(
            "API key",
            "none given",
            remedy="set VARVE_API_KEY; `varve key create USER` makes one",
        )
    return url, key


def _nothing(what: str, folder: Path, variable: str) -> StackError:
    return StackError(
        what,
        f"no stack is running in {folder.resolve()}, and {variable} is not set",
        remedy=f"start one with `make up`, or set {variable}",
    )
