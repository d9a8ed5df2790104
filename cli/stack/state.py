"""The folder `.varve/`: data, logs, secrets, who is running, and where everything listens."""

import fcntl
import json
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from cli.stack.errors import StackError

LOG_KEPT = 10_000_000  # bytes; a longer log is put aside at the next start


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a running stack is; kept in `endpoints.json` for as long as it runs."""

    api_url: str
    console_url: str | None
    temporal_address: str
    temporal_ui_url: str | None
    database_url: str
    redis_url: str
    model_base_url: str
    demo_api_key: str


@dataclass(frozen=True, slots=True)
class Passwords:
    postgres: str
    valkey: str


class State:
    """One state folder. Everything in it that holds a secret is readable by its owner only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.data = self.folder / "data"
        self.logs = self.folder / "logs"
        self.workspaces = self.folder / "workspaces"
        self.processes = self.folder / "processes.json"
        self._endpoints = self.folder / "endpoints.json"
        self._demo_key = self.folder / "demo_key"
        self._passwords = self.folder / "passwords.json"

    def prepare(self) -> None:
        """Make the folders; put logs aside that have grown long. Raises StackError."""
        try:
            for folder in (self.data, self.logs, self.workspaces):
                folder.mkdir(parents=True, exist_ok=True)
            for log in self.logs.glob("*.log"):
                if log.stat().st_size > LOG_KEPT:
                    log.replace(log.with_suffix(".log.1"))
        except OSError as error:
            raise StackError(
                "state folder",
                f"{self.folder} can't be written: {error}",
                remedy="choose another one: varve up --state FOLDER",
            ) from error

    @contextmanager
    def lock(self) -> Generator[None]:
        """Hold the folder for this process. The system lets go of it however the process ends."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.seek(0)
                holder = file.read().strip()
                raise StackError(
                    "state folder",
                    f"{self.folder} is in use by another `varve up`, process {holder}",
                    remedy="use that one, stop it with Ctrl-C, or choose another: --state FOLDER",
                ) from error
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield

    def held(self) -> bool:
        """Whether a `varve up` holds this folder now."""
        try:
            with (self.folder / "lock").open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def passwords(self) -> Passwords:
        """Of the embedded servers; made up once, when the folder is new."""
        try:
            return Passwords(**json.loads(self._passwords.read_text()))
        except FileNotFoundError:
            made = Passwords(secrets.token_urlsafe(24), secrets.token_urlsafe(24))
            write_private(self._passwords, json.dumps(asdict(made)))
            return made

    def demo_key(self) -> str | None:
        try:
            return self._demo_key.read_text().strip() or None
        except FileNotFoundError:
            return None

    def keep_demo_key(self, key: str) -> None:
        write_private(self._demo_key, key + "\n")

    def endpoints(self) -> Endpoints | None:
        """Of the stack that runs in this folder; None when none does."""
        try:
            return Endpoints(**json.loads(self._endpoints.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def keep_endpoints(self, endpoints: Endpoints) -> None:
        write_private(self._endpoints, json.dumps(asdict(endpoints), indent=2) + "\n")

    def forget_endpoints(self) -> None:
        self._endpoints.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader sees the old or the new; mode 600."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w") as file:
        file.write(text)
    fresh.replace(path)
