"""The audit trail: everyone's own; an operator's key may look at another owner's, or at all."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from adapters.postgres.audit import AuditFilter
from api import paging
from api.identity import AuditReader
from api.paging import Cursor, Filter, Limit
from api.problems import Problem, documented, invalid
from api.state import Of
from api.views import AuditView, Page

router = APIRouter(tags=["audit"])


@router.get("/audit", summary="What was done, newest first", responses=documented(403))
async def query_audit(
    services: Of,
    who: AuditReader,
    owner: Annotated[
        str | None, Query(description="Operators only: a user's id, or `all`; absent: yourself")
    ] = None,
    run_id: Filter = None,
    kind: Filter = None,
    tool: Filter = None,
    origin: Filter = None,
    executor: Filter = None,
    profile: Filter = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[AuditView]:
    if owner is not None and owner != str(who.id) and not who.role.operates:
        raise Problem("forbidden", 403, "Only operators see the audit trail of others.")
    where = AuditFilter(
        owner_id=_owner(owner, who.id),
        run_id=run_id,
        kind=kind,
        tool=tool,
        origin=origin,
        executor=executor,
        profile=profile,
        before_id=paging.decode_id(cursor),
    )
    rows = await services.audit.query(where, limit)
    last = str(rows[-1].id) if len(rows) == limit else None
    return Page(items=[AuditView.of(row) for row in rows], next_cursor=last)


def _owner(asked: str | None, own: UUID) -> UUID | None:
    if asked is None:
        return own
    if asked == "all":
        return None
    try:
        return UUID(asked)
    except ValueError as error:
        raise invalid("owner", "A user's id, or `all`.") from error
