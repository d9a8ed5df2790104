"""Lists that grow: what narrows them, and pages. A cursor is where the last page ended."""

import base64
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query

from api.fields import Text
from api.problems import invalid

Filter = Annotated[Text | None, Query(max_length=200)]

Limit = Annotated[int, Query(ge=1, le=200, description="Items per page")]
Cursor = Annotated[
    str | None, Query(max_length=200, description="`nextCursor` of the page before; absent: first")
]


def encode(at: datetime, key: UUID) -> str:
    return base64.urlsafe_b64encode(f"{at.isoformat()} {key}".encode()).decode()


def decode(cursor: str | None) -> tuple[datetime, UUID] | None:
    """Raises a 422 for what is not a cursor of ours."""
    if cursor is None:
        return None
    try:
        at, key = base64.urlsafe_b64decode(cursor).decode().split(" ")
        return utc(datetime.fromisoformat(at)), UUID(key)
    except ValueError as error:
        raise invalid("cursor", "Not a cursor of this list.") from error


def instant(name: str, value: datetime | None) -> datetime | None:
    """A moment that a list is narrowed to. Raises a 422 naming the parameter."""
    try:
        return None if value is None else utc(value)
    except ValueError as error:
        raise invalid(name, f"{error}, as in 2026-11-30T08:00:00Z.") from error


def utc(value: datetime) -> datetime:
    """Raises ValueError for a time without an offset, or beyond the calendar."""
    if value.tzinfo is None:
        raise ValueError("A time with its offset from UTC")
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("A time within the years 1 to 9999 in UTC") from error


def decode_id(cursor: str | None) -> int | None:
    """A cursor of a list that is ordered by a number."""
    if cursor is None:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise invalid("cursor", "Not a cursor of this list.")
    return int(cursor)
