"""A request whose session is at work: refused, queued, or the run in its way stopped."""

from api.state import Services
from api.stopping import stop
from api.waiting import over
from domain.errors import NotFound, SessionBusy
from domain.identity import Caller
from domain.runs import NewRun, OnBusy

PATIENCE_S = 15.0
"""How long the end of a stopped run is waited for."""


async def make_way(services: Services, who: Caller, new: NewRun, busy: SessionBusy) -> None:
    """Have the run in the way of this one stopped, as its policy says. Raises SessionBusy if it
    does not end."""
    try:
        standing = await services.runs.get(new.owner_id, busy.active_run_id)
    except NotFound:
        return
    if not standing.status.ended:
        reason = "Another request took its place."
        await stop(services, who, standing, reason, by_run=new.run_id, on_busy=new.on_busy)
        if not await over(services, standing, PATIENCE_S):
            raise busy
    if new.on_busy is OnBusy.ROLLBACK:
        await services.runs.roll_back(standing.key, new.run_id)
