"""Who is calling: an API key in, a Caller out, 401 otherwise. Every route but health has one."""

from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.problems import Problem
from api.state import Of
from domain.identity import Caller, Scope

bearer = HTTPBearer(
    auto_error=False,
    scheme_name="ApiKey",
    description="`Authorization: Bearer vk_…`, a key made with `varve key create`.",
)
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via", "cf-connecting-ip")


async def caller(
    request: Request,
    services: Of,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Caller:
    if credentials is None:
        raise _unauthorized("An API key is needed: Authorization: Bearer vk_…")
    holder = await services.users.find_by_key(credentials.credentials)
    if holder is None:
        raise _unauthorized("The API key is unknown, revoked or expired.")
    if holder.loopback_only and not from_loopback(request):
        raise _unauthorized("This API key works on the machine itself only.")
    return Caller(holder.user, frozenset(holder.scopes))


def requires(scope: Scope) -> Callable[..., Awaitable[Caller]]:
    """A dependency: the caller, whose key must have this scope."""

    async def dependency(who: Annotated[Caller, Depends(caller)]) -> Caller:
        check(who, scope)
        return who

    return dependency


def check(who: Caller, scope: Scope) -> None:
    if scope not in who.scopes:
        raise Problem("forbidden", 403, f"The API key lacks the scope {scope}.")


def from_loopback(request: Request) -> bool:
    """A proxy on this machine is not the caller: what it forwards comes from elsewhere."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _unauthorized(detail: str) -> Problem:
    headers = {"WWW-Authenticate": 'Bearer realm="varve"'}
    return Problem("unauthorized", 401, detail, headers=headers)


AnyCaller = Annotated[Caller, Depends(caller)]
RunReader = Annotated[Caller, Depends(requires(Scope.RUNS_READ))]
RunWriter = Annotated[Caller, Depends(requires(Scope.RUNS_WRITE))]
AuditReader = Annotated[Caller, Depends(requires(Scope.AUDIT_READ))]
JobReader = Annotated[Caller, Depends(requires(Scope.JOBS_READ))]
JobWriter = Annotated[Caller, Depends(requires(Scope.JOBS_WRITE))]
ProfileWriter = Annotated[Caller, Depends(requires(Scope.PROFILES_WRITE))]
MemoryReader = Annotated[Caller, Depends(requires(Scope.MEMORY_READ))]
MemoryWriter = Annotated[Caller, Depends(requires(Scope.MEMORY_WRITE))]
