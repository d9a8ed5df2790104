"""Sessions: list them, load one the way an AG-UI client needs it."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from adapters.postgres.messages import Session
from adapters.postgres.runs import RunFilter
from api import paging, sse
from api.identity import RunReader, check
from api.paging import Cursor, Limit
from api.problems import documented
from api.state import Of, Services
from api.views import HistoryView, Page, SessionView
from domain import agui_shapes
from domain.agui_reader import end_of
from domain.identity import Caller, Scope
from domain.messages import Message
from domain.profiles import SessionType
from domain.runs import Run

router = APIRouter(prefix="/sessions", tags=["sessions"])

_ATTEMPTS = 3


@router.get("", summary="List sessions, latest activity first", responses=documented(403))
async def list_sessions(
    services: Of,
    who: RunReader,
    type: SessionType = SessionType.CHAT,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[SessionView]:
    before = paging.decode(cursor)
    sessions = await services.sessions.list(who.id, type=type, before=before, limit=limit)
    full = len(sessions) == limit
    last = paging.encode(sessions[-1].updated_at, sessions[-1].key) if full else None
    return Page(items=[SessionView.of(session) for session in sessions], next_cursor=last)


@router.get(
    "/{thread_id:path}/history",
    summary="The conversation, and where to go on from",
    responses=documented(403, 404),
)
async def get_history(
    thread_id: str,
    services: Of,
    who: RunReader,
    include_hidden: Annotated[
        bool, Query(description="Hidden automation messages too; needs the scope audit:read")
    ] = False,
) -> HistoryView:
    """The newest 2,000 messages at most."""
    if include_hidden:
        check(who, Scope.AUDIT_READ)
    session = await services.sessions.get(who.id, thread_id)
    messages, run = await _consistent(services, who, session, include_hidden)
    active = run is not None and not run.status.ended
    open_ones = await services.checkpoints.open_of_session(who.id, session.key) if active else []
    latest = await services.runs.latest_segment(run) if run is not None and active else None
    return HistoryView(
        messages=agui_shapes.messages(sse.bounded(messages), settled=not active),
        state={},
        pending_interrupts=[agui_shapes.interrupt(each) for each in open_ones],
        active_run_id=latest,
        last_event_id=end_of(run.last_seq) if run is not None else None,
    )


async def _consistent(
    services: Services, who: Caller, session: Session, include_hidden: bool
) -> tuple[Sequence[Message], Run | None]:
    """Messages and latest run as of one moment: read again if the run moved in between."""
    where = RunFilter(thread_id=session.thread_id)
    before: Run | None = None
    messages: Sequence[Message] = ()
    for _ in range(_ATTEMPTS):
        runs = await services.runs.list(who.id, where, limit=1)
        run = runs[0] if runs else None
        if run == before and before is not None:
            break
        before = run
        messages = await services.messages.conversation(
            session.key, _EVERYTHING, include_hidden=include_hidden
        )
        if run is None or run.status.ended:
            break
    return messages, before


_EVERYTHING = 2**62


@router.get("/{thread_id:path}", summary="A session", responses=documented(403, 404))
async def get_session(thread_id: str, services: Of, who: RunReader) -> SessionView:
    return SessionView.of(await services.sessions.get(who.id, thread_id))
