"""What a failure of the embedded stack says: which component, why, where its log is, what to do."""

from pathlib import Path


class StackError(Exception):
    """A component did not start or died; the text is complete and for a person."""

    def __init__(self, component: str, what: str, *, remedy: str, log: Path | None = None) -> None:
        lines = [f"{component}: {what}"]
        if log is not None:
            lines.append(f"Its log: {log}")
        lines.append(f"Remedy: {remedy}")
        super().__init__("\n".join(lines))
        self.component = component
        self.what = what
        self.remedy = remedy
        self.log = log


def tail(log: Path, lines: int = 8) -> str:
    """The last lines of a log, for an error text; empty when there is none."""
    try:
        text = log.read_bytes()[-8192:].decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.rstrip().splitlines()[-lines:])
