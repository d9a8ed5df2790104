"""Pages of lists that grow: a cursor is where the last page ended, in a form to be given back."""

import base64
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Query

from api.problems import invalid

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
        when = datetime.fromisoformat(at)
        if when.tzinfo is None:
            raise ValueError(at)
        return when, UUID(key)
    except ValueError as error:
        raise invalid("cursor", "Not a cursor of this list.") from error


def decode_id(cursor: str | None) -> int | None:
    """A cursor of a list that is ordered by a number."""
    if cursor is None:
        return None
    if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 18:
        raise invalid("cursor", "Not a cursor of this list.")
    return int(cursor)
