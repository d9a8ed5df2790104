"""For whom a request acts: the caller, or an owner whom an operator names, which is recorded."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Query, Request

from adapters.postgres.audit import AuditEntry
from api.identity import requires
from api.problems import Problem
from api.state import Of, Services
from domain.identity import Caller, Scope, User

OwnerId = Annotated[
    UUID | None, Query(description="Operators only: act for this user; absent: yourself")
]


@dataclass(frozen=True, slots=True)
class Acting:
    """`who` asks, and everything is done for `owner`."""

    who: Caller
    owner: User


def acting(scope: Scope) -> Callable[..., Awaitable[Acting]]:
    """A dependency. What an operator asks for is in the owner's audit before it is done."""

    async def dependency(
        request: Request,
        services: Of,
        who: Annotated[Caller, Depends(requires(scope))],
        owner_id: OwnerId = None,
    ) -> Acting:
        if owner_id in (None, who.id):
            return Acting(who, who.user)
        if not who.role.operates:
            raise Problem("forbidden", 403, "Only operators act for others.")
        owner = await services.users.get_user(owner_id)
        await _record(services, request, who, owner)
        return Acting(who, owner)

    return dependency


async def _record(services: Services, request: Request, who: Caller, owner: User) -> None:
    route = request.scope["route"].path
    entry = AuditEntry(
        owner_id=owner.id,
        actor_id=who.id,
        kind="operator_acted",
        detail={"what": f"{request.method} {route}", **request.path_params},
    )
    await services.audit.append(entry)


JobReading = Annotated[Acting, Depends(acting(Scope.JOBS_READ))]
JobWriting = Annotated[Acting, Depends(acting(Scope.JOBS_WRITE))]
RunReading = Annotated[Acting, Depends(acting(Scope.RUNS_READ))]
RunWriting = Annotated[Acting, Depends(acting(Scope.RUNS_WRITE))]
