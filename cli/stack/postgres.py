"""Embedded PostgreSQL: one cluster in a folder, listening on loopback only."""

import asyncio
import contextlib
import locale
import os
import pwd
import secrets
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, cast

import asyncpg
import psutil

from adapters.postgres.pool import Connection
from cli.stack import unprivileged
from cli.stack.binaries import postgres_folder
from cli.stack.errors import StackError
from cli.stack.ports import HOST, free_port
from cli.stack.process import Child, end

USER = "postgres"
UNPRIVILEGED = "nobody"  # PostgreSQL refuses to run as root

REMEDY = (
    "read the log; as root, PostgreSQL runs as `nobody`, who must be able to enter the folders; "
    "if the data is damaged, move its folder away and start again"
)

FOR_TESTS: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_wal_size": "4GB",
}
"""Settings that trade safety for speed: fit for a cluster that is thrown away."""


@contextlib.asynccontextmanager
async def connection(url: str) -> AsyncGenerator[Connection]:
    """One connection, for a command that needs no pool. Raises what asyncpg raises."""
    opened = cast(Any, await asyncpg.connect(url, timeout=10))
    try:
        yield opened
    finally:
        await opened.close()


class Postgres:
    """A cluster under `data` on `port` (0: a free one). Trust authentication without `password`.

    `settings` are server parameters by name. Start after a crash is an ordinary start.
    """

    component = "PostgreSQL"

    def __init__(
        self,
        data: Path,
        log: Path,
        *,
        port: int = 0,
        password: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data.resolve()
        self.port = port
        self.child = Child(
            self.component,
            log,
            stop_signal=signal.SIGINT,  # "fast": ends sessions, does not wait for them
            stop_within_s=30,
            remedy=REMEDY,
        )
        self._password = password
        self._settings = settings or {}

    @property
    def url(self) -> str:
        """Of the maintenance database."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        secret = f":{self._password}" if self._password else ""
        return f"postgresql://{USER}{secret}@{HOST}:{self.port}/{database}"

    async def start(self) -> None:
        """Make the cluster if need be, start the server, return when it answers."""
        self.data.mkdir(parents=True, exist_ok=True)
        self._own(self.data)
        self.data.chmod(0o700)
        if not (self.data / "PG_VERSION").exists():
            await self._initialise()
        await self._clear_leftovers()
        self.port = self.port or free_port()
        await self.child.spawn(self._argv("postgres", "-D", str(self.data), *self._parameters()))
        await self.child.ready(self._answers, within_s=60)

    async def stop(self) -> None:
        await self.child.stop()

    async def _answers(self) -> None:
        async with connection(self.url) as opened:
            await opened.execute("SELECT 1")

    def _parameters(self) -> list[str]:
        parameters = {
            "port": str(self.port),
            "listen_addresses": HOST,
            "unix_socket_directories": "",  # their paths may be too long; nobody needs them
            "max_connections": "200",
            **self._settings,
        }
        return [part for name, value in parameters.items() for part in ("-c", f"{name}={value}")]

    async def _initialise(self) -> None:
        """initdb, all or nothing: a half-made cluster of a killed start is removed first."""
        for entry in self.data.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        secret = self.data.parent / f".{secrets.token_hex(8)}"
        options = ["--auth=trust"]
        if self._password:
            secret.touch(0o600)
            secret.write_text(self._password)
            self._own(secret)
            options = ["--auth=scram-sha-256", f"--pwfile={secret}"]
        try:
            await self._run_initdb(options)
        finally:
            secret.unlink(missing_ok=True)

    async def _run_initdb(self, options: list[str]) -> None:
        child = Child(self.component, self.child.log, remedy=REMEDY)
        await child.spawn(
            self._argv(
                "initdb",
                *(f"--pgdata={self.data}", f"--username={USER}", "--encoding=UTF8"),
                *("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"),
                f"--lc-ctype={_character_types()}",
                *("--no-instructions", *options),
            )
        )
        try:
            if code := await child.wait():
                raise child.error(f"initdb failed with {code}")
        except asyncio.CancelledError:
            await child.kill()
            raise

    async def _clear_leftovers(self) -> None:
        """End a server that a killed parent left on this very folder; drop its stale pid file."""
        pid_file = self.data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().splitlines()[0])
        except (OSError, ValueError, IndexError):
            return
        if self._is_ours(pid):
            await end(pid, within_s=30, signal_first=signal.SIGINT)
        pid_file.unlink(missing_ok=True)

    def _is_ours(self, pid: int) -> bool:
        try:
            command = psutil.Process(pid).cmdline()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False
        return bool(command) and "postgres" in command[0] and str(self.data) in command

    def _argv(self, program: str, *arguments: str) -> list[str]:
        path = str(postgres_folder() / program)
        if os.geteuid() != 0:
            return [path, *arguments]
        account = _unprivileged()
        launcher = [sys.executable, "-I", str(Path(unprivileged.__file__))]
        user = [str(account.pw_uid), str(account.pw_gid)]
        return [*launcher, *user, str(self.data), path, *arguments]

    def _own(self, path: Path) -> None:
        if os.geteuid() == 0:
            account = _unprivileged()
            os.chown(path, account.pw_uid, account.pw_gid)


def _character_types() -> str:
    """A system locale that knows letters beyond ASCII: pg_trgm asks it what a word is."""
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        for name in ("C.UTF-8", "en_US.UTF-8", "UTF-8"):
            with contextlib.suppress(locale.Error):
                locale.setlocale(locale.LC_CTYPE, name)
                return name
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
    return "C"


def _unprivileged() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(UNPRIVILEGED)
    except KeyError as error:
        raise StackError(
            Postgres.component,
            f"it refuses to run as root, and there is no account {UNPRIVILEGED!r}",
            remedy="run this as an ordinary user, or create that account",
        ) from error
