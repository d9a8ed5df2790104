"""What a check of a running stack found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    ok: bool
    detail: str
