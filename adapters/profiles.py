"""The profiles that exist by name: those that ship, and the operator's own."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path

import structlog

from adapters.profile_format import Reading, as_document, dump, load, read
from adapters.prompts import PROMPTS
from domain.errors import InvalidInput, NotFound
from domain.identity import UserRole
from domain.profiles import Executor, Profile

__all__ = ["INTERNAL", "Deprecations", "ProfileCatalog", "as_document", "dump", "load", "read"]

INTERNAL = frozenset({"subtask_default"})
"""Built-in worker profiles that only the runtime itself starts."""

_log = structlog.get_logger(__name__)


class Deprecations:
    """Says once per source which old fields it still carries."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    def report(self, source: str, deprecated: Sequence[str]) -> None:
        for field in deprecated:
            if (source, field) not in self._said:
                self._said.add((source, field))
                _log.warning("profile_field_deprecated", source=source, field=field)


class ProfileCatalog:
    """Read once, when a process starts; a name in `folder` replaces the built-in one."""

    def __init__(self, folder: Path | None = None) -> None:
        """Raises InvalidInput naming file and field, for a folder that does not exist too."""
        self._deprecations = Deprecations()
        self._profiles = {p.name: p for p in self._load(_packaged())}
        if folder is not None:
            self._profiles |= {p.name: p for p in self._load(_folder(folder))}

    def all(self) -> tuple[Profile, ...]:
        """Every profile, by name."""
        return tuple(self._profiles[name] for name in sorted(self._profiles))

    def get(self, name: str) -> Profile:
        """Raises NotFound."""
        try:
            return self._profiles[name]
        except KeyError:
            raise NotFound(f"There is no profile called {name[:100]!r}.") from None

    def visible_to(self, role: UserRole) -> tuple[Profile, ...]:
        """Those that a request of this role may name: operators all, users what talks to them."""
        if role.operates:
            return self.all()
        return tuple(
            p for p in self.all() if p.executor is Executor.WORKER and p.name not in INTERNAL
        )

    def _load(self, documents: Iterator[tuple[str, str]]) -> Iterator[Profile]:
        for file, text in documents:
            reading = _read(file, text)
            self._deprecations.report(file, reading.deprecated)
            yield reading.profile


def _packaged() -> Iterator[tuple[str, str]]:
    for entry in files("agents").joinpath("profiles").iterdir():
        if entry.name.endswith(".json"):
            yield entry.name, entry.read_text("utf-8")


def _folder(folder: Path) -> Iterator[tuple[str, str]]:
    if not folder.is_dir():
        raise InvalidInput("profiles_dir", f"{folder} is not a folder")
    for path in sorted(folder.glob("*.json")):
        yield path.name, path.read_text("utf-8")


def _read(file: str, text: str) -> Reading:
    try:
        reading = read(text)
    except InvalidInput as error:
        raise InvalidInput(f"{file}: {error.field}", f"{file}: {error}") from error
    profile = reading.profile
    if f"{profile.name}.json" != file:
        raise InvalidInput(f"{file}: name", f"{file}: the file must be called {profile.name}.json")
    if profile.prompt not in PROMPTS:
        known = ", ".join(PROMPTS)
        raise InvalidInput(f"{file}: prompt", f"{file}: no prompt {profile.prompt!r} ({known})")
    return reading
