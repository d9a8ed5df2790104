"""Start a program that refuses to run as root: `python unprivileged.py UID GID FOLDER PROGRAM …`.

PostgreSQL will not run as root, and an unprivileged user usually cannot enter root's folders,
where the clone and its environment may be. Widening the modes of someone's home folder is no
answer, so the program gets an unprivileged user plus, where it is needed and the kernel allows it,
the one capability that lets it pass through folders (capabilities(7), "ambient"). FOLDER is what it
must reach besides itself. Linux only; elsewhere the user is changed and nothing else.
"""

import ctypes
import os
import sys
from pathlib import Path

CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2
_PR_SET_PDEATHSIG = 1
_PR_GET_PDEATHSIG = 2
_PR_SET_SECUREBITS = 28
_NO_SETUID_FIXUP = 1 << 2
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CAPABILITY_VERSION_3 = 0x20080522


def become(uid: int, gid: int, capability: int | None) -> None:
    """Change to this user for good, keeping at most one capability over the next exec."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None
    death_signal = ctypes.c_int(0)
    if libc is not None:
        _checked(libc.prctl(_PR_GET_PDEATHSIG, ctypes.byref(death_signal), 0, 0, 0))
    if libc is not None and capability is not None:
        # Keep capabilities over setuid, and let access(2) count them, which PostgreSQL asks.
        _checked(libc.prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP, 0, 0, 0))
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if libc is not None and capability is not None:
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        sets = (ctypes.c_uint32 * 6)(*([1 << capability] * 3), 0, 0, 0)
        _checked(libc.capset(header, sets))
        _checked(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, capability, 0, 0))
    if libc is not None:  # a change of user forgets it
        _checked(libc.prctl(_PR_SET_PDEATHSIG, death_signal.value, 0, 0, 0))


def passing_capability(*paths: Path) -> int | None:
    """The least capability we hold that lets anyone reach these paths; None if all may already."""
    if not sys.platform.startswith("linux") or all(map(_open_to_all, paths)):
        return None
    held = _effective()
    for capability in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE):
        if held >> capability & 1:
            return capability
    return None


def _open_to_all(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)


def _effective() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main() -> None:
    uid, gid, folder, program, *arguments = sys.argv[1:]
    become(int(uid), int(gid), passing_capability(Path(folder), Path(program), Path.cwd()))
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main()
