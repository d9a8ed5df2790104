"""Make `.venv` exactly what requirements.lock says. Standard library only: it runs before the rest.

`python3 cli/environment.py` is what `make setup` calls. Wheels only, hashes checked, nothing is
compiled. The locked uv does the work in seconds; where it can't reach the index, pip does.
"""

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
LOCK = ROOT / "requirements.lock"
STAMP = ENVIRONMENT / "installed"
OLDEST = (3, 11)


def main() -> int:
    """Returns the exit code; says what it does on standard error."""
    if sys.version_info < OLDEST:
        _say(f"Varve needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}.")
        _say("Name another one: make PYTHON=python3.12")
        return 1
    state = _state()
    if STAMP.is_file() and STAMP.read_text() == state and _works():
        os.utime(STAMP)
        return 0
    try:
        _make()
        _install()
    except subprocess.CalledProcessError as error:
        _say(f"Set-up failed: {' '.join(map(str, error.cmd))} (exit code {error.returncode}).")
        _say("Check the network or your pip configuration, then run `make setup` again.")
        return 1
    STAMP.write_text(state)
    return 0


def _make() -> None:
    """A virtual environment that works, with pip."""
    if _works():
        return
    _say(f"Making {ENVIRONMENT.name} with Python {sys.version.split()[0]}")
    try:
        venv.create(ENVIRONMENT, with_pip=True, clear=True, symlinks=True)
    except subprocess.CalledProcessError:
        _say("This Python has no ensurepip; on Debian and Ubuntu: apt install python3-venv")
        raise


def _install() -> None:
    _say("Installing the locked packages")
    _install_locked()
    # The project itself: nothing to resolve, and its build backend is among the locked packages.
    project = ("--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    _pip("install", "--quiet", *project)


def _install_locked() -> None:
    uv = ENVIRONMENT / "uv.lock.txt"
    uv.write_text(_entry("uv"))
    try:
        _pip("install", "--quiet", "--no-deps", "--require-hashes", "-r", str(uv))
        command = [PYTHON, "-m", "uv", "pip", "sync", "--quiet", "--python", PYTHON]
        _run(*command, "--require-hashes", "--no-build", LOCK, env={**_pip_index(), **os.environ})
    except subprocess.CalledProcessError:
        _say("uv could not install them; trying with pip, which takes longer")
        wheels = ("--only-binary", ":all:", "--no-deps", "--require-hashes")
        _pip("install", "--quiet", *wheels, "-r", str(LOCK))
    finally:
        uv.unlink()


def _entry(package: str) -> str:
    """One package's lines of the lock: the first, and the indented ones after it."""
    lines = LOCK.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{package}=="))
    end = next((i for i in range(start + 1, len(lines)) if lines[i][:1] != " "), len(lines))
    return "\n".join(lines[start:end]) + "\n"


def _pip_index() -> dict[str, str]:
    """uv does not read pip's configuration; someone with a mirror has it there."""
    listed = subprocess.run(
        [PYTHON, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    known = {"index-url": "UV_DEFAULT_INDEX", "cert": "SSL_CERT_FILE"}
    found: dict[str, str] = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        if variable := known.get(name.rpartition(".")[2]):
            found[variable] = value.strip("'\"")
    return found


def _works() -> bool:
    """Whether the environment's Python runs, has pip, and is of our version."""
    version = f"import pip, sys; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
    try:
        return subprocess.run([PYTHON, "-c", version], capture_output=True).returncode == 0
    except OSError:
        return False


def _state() -> str:
    """What the environment depends on, in a digest."""
    parts = [LOCK.read_bytes(), (ROOT / "pyproject.toml").read_bytes(), str(ROOT).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _pip(*arguments: str) -> None:
    _run(PYTHON, "-m", "pip", "--disable-pip-version-check", *arguments)


def _run(*command: "str | Path", env: "dict[str, str] | None" = None) -> None:
    subprocess.run(command, check=True, cwd=ROOT, env=env)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
