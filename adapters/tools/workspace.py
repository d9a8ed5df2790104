"""The files of a session: everything stays inside its folder, whatever the path says.

Paths are walked one component at a time by file descriptor, and no symbolic link is followed, so
there is no moment between a check and a use in which the answer could change. Blocking: call these
from a thread.
"""

import os
import secrets
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EISDIR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, ENOTEMPTY
from io import TextIOWrapper
from itertools import islice
from pathlib import Path

from adapters.tools.registry import ToolError
from domain.errors import ErrorCode, Transient
from domain.text import clean

MAX_FILE_BYTES = 1_000_000
MAX_WORKSPACE_BYTES = 50_000_000
MAX_FILES = 1_000
MAX_DEPTH = 12
MAX_LINE = 4_000  # characters; the rest of a longer line is read as the next one
_UNFINISHED = ".varve-unfinished-"  # a write that has not been given its name

_OURS = {
    ENOENT: "there is no such file or folder",
    ENOTDIR: "part of the path is not a folder (links are not followed)",
    ELOOP: "is a link, and links are not followed",
    EISDIR: "is a folder",
    ENOTEMPTY: "is a folder",
    ENAMETOOLONG: "the name is too long",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder; `path` is relative to the workspace, a folder's ends with a slash."""

    path: str
    size: int  # bytes; 0 for a folder


@dataclass(frozen=True, slots=True)
class Lines:
    """`count` lines of a file from line `start` (1 = the first). `more`: others follow."""

    text: str
    start: int
    count: int
    more: bool


class Workspace:
    def __init__(self, root: Path) -> None:
        self._root = root

    def size(self, path: str) -> int:
        """Bytes of a file. Raises ToolError if there is none."""
        with self._file(path) as descriptor:
            return os.fstat(descriptor).st_size

    def has(self, path: str) -> bool:
        """Whether something is there under this path."""
        *folders, name = _parts(path)
        try:
            with self._folder(folders) as folder:
                os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return False
        return True

    def read(self, path: str) -> str:
        """A whole text file. Raises ToolError for what is not there, or is not UTF-8 text."""
        with self._file(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_FILE_BYTES + 1)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ToolError(f"{path} is not UTF-8 text") from error

    def read_lines(self, path: str, start: int, count: int) -> Lines:
        """`count` lines from line `start` on, without holding more of the file than those."""
        with self._file(path) as descriptor, _text(descriptor) as file:
            for _ in range(start - 1):
                if not file.readline(MAX_LINE):
                    raise ToolError(f"{path} has fewer than {start} lines")
            lines = [line for _ in range(count) if (line := file.readline(MAX_LINE))]
            return Lines("".join(lines), start, len(lines), bool(file.readline(1)))

    def write(self, path: str, content: str) -> int:
        """Create or replace a file, all of it or nothing. Returns its size in bytes."""
        data = clean(content).encode()
        if len(data) > MAX_FILE_BYTES:
            raise ToolError(f"content has {len(data):,} bytes, at most {MAX_FILE_BYTES:,} allowed")
        *folders, name = _parts(path)
        self._root.mkdir(parents=True, exist_ok=True)
        self._check_room(len(data))
        with _told(path), self._folder(folders, create=True) as folder:
            if _is_folder(folder, name):
                raise ToolError(f"{path}: {_OURS[EISDIR]}")
            _replace(folder, name, data)
        return len(data)

    def append(self, path: str, text: str) -> int:
        """Add lines to a file, which is made if there is none. Returns its new size in bytes."""
        data = clean(text).encode()
        *folders, name = _parts(path)
        self._root.mkdir(parents=True, exist_ok=True)
        self._check_room(len(data))
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with (
            _told(path),
            self._folder(folders, create=True) as folder,
            _closing(os.open(name, flags, 0o644, dir_fd=folder)) as descriptor,
        ):
            return _append(descriptor, path, data)

    def list(self, path: str, limit: int) -> tuple[list[Entry], bool]:
        """Everything below a folder, in the order of names; and whether `limit` cut it short."""
        names = [] if path in ("", ".") else _parts(path)
        if not names and not self._root.exists():
            return [], False  # nothing was ever written
        with _told(path), self._folder(names) as folder:
            found = list(islice(_walk(folder, "/".join(names), len(names)), limit + 1))
        return found[:limit], len(found) > limit

    def _check_room(self, wanted: int) -> None:
        with self._folder([]) as folder:
            files = [entry.size for entry in _walk(folder, "", 0)]
        if len(files) >= MAX_FILES or sum(files) + wanted > MAX_WORKSPACE_BYTES:
            raise ToolError(
                f"the workspace is full ({len(files):,} of {MAX_FILES:,} entries, "
                f"{sum(files):,} of {MAX_WORKSPACE_BYTES:,} bytes)"
            )

    @contextmanager
    def _file(self, path: str) -> Generator[int]:
        """The file, open for reading."""
        *folders, name = _parts(path)
        with _told(path), self._folder(folders) as folder:
            # NONBLOCK: opening a pipe must not wait for its other end.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with _closing(os.open(name, flags, dir_fd=folder)) as descriptor:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ToolError(f"{path}: is not a file")
                yield descriptor

    @contextmanager
    def _folder(self, names: Sequence[str], *, create: bool = False) -> Generator[int]:
        """The folder reached by these names, from the workspace down."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        current = os.open(self._root, flags)
        try:
            for name in names:
                if create:
                    _make_folder(current, name)
                below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=current)
                os.close(current)
                current = below
            yield current
        finally:
            os.close(current)


def _parts(path: str) -> list[str]:
    """The names a relative path consists of. Raises ToolError for any other path."""
    if path.startswith(("/", "\\", "~")) or "\x00" in path:
        raise ToolError("path: must be relative to the workspace, like notes/plan.md")
    if not path.isprintable():  # a line break in a name would forge lines of a listing
        raise ToolError("path: must not contain line breaks or control characters")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ToolError("path: must not contain ..")
    if not parts:
        raise ToolError("path: must name a file")
    if len(parts) > MAX_DEPTH:
        raise ToolError(f"path: at most {MAX_DEPTH} levels")
    if parts[-1].startswith(_UNFINISHED):
        raise ToolError("path: this name is reserved")
    return parts


@contextmanager
def _told(path: str) -> Generator[None]:
    """What the file system says about this path, in words for the model."""
    try:
        yield
    except OSError as error:
        if error.errno in _OURS:
            raise ToolError(f"{path}: {_OURS[error.errno]}") from error
        raise Transient(f"the workspace failed: {error.strerror}", ErrorCode.INTERNAL) from error


@contextmanager
def _closing(descriptor: int) -> Generator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _text(descriptor: int) -> TextIOWrapper:
    return open(descriptor, encoding="utf-8", errors="replace", newline="", closefd=False)


def _make_folder(parent: int, name: str) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)


def _is_folder(parent: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _append(descriptor: int, path: str, data: bytes) -> int:
    """In one write, so that a crash leaves the file with all of it or none."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(f"{path}: is not a file")
    if found.st_size and os.pread(descriptor, 1, found.st_size - 1) != b"\n":
        data = b"\n" + data
    data += b"" if data.endswith(b"\n") else b"\n"
    if found.st_size + len(data) > MAX_FILE_BYTES:
        raise ToolError(
            f"{path} would have {found.st_size + len(data):,} bytes, "
            f"at most {MAX_FILE_BYTES:,} are allowed"
        )
    os.write(descriptor, data)
    os.fsync(descriptor)
    return found.st_size + len(data)


def _replace(folder: int, name: str, data: bytes) -> None:
    """Write under another name and rename: a reader or a crash never sees half a file."""
    unfinished = _UNFINISHED + secrets.token_hex(8)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(unfinished, flags, 0o644, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(unfinished, dir_fd=folder)
        raise


def _walk(folder: int, prefix: str, depth: int) -> Iterator[Entry]:
    """Files and folders below, links left out, in the order of their names."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield Entry(path + "/", 0)
            if depth < MAX_DEPTH:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                with _closing(os.open(entry.name, flags, dir_fd=folder)) as below:
                    yield from _walk(below, path, depth + 1)
        elif entry.is_file(follow_symlinks=False) and not entry.name.startswith(_UNFINISHED):
            yield Entry(path, entry.stat(follow_symlinks=False).st_size)
