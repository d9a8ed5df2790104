"""Counts for Prometheus, beside the documented API: an operator's matter."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.security import HTTPAuthorizationCredentials

from adapters.metrics import CONTENT_TYPE, exposition
from adapters.postgres.slots import ALERT_AFTER
from api.identity import bearer, caller, from_loopback
from api.problems import Problem
from api.state import Of, Services

router = APIRouter()


async def _allowed(
    request: Request,
    services: Of,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Services:
    """Without a key from the machine itself only; with one, operators."""
    if credentials is None and from_loopback(request):
        return services
    who = await caller(request, services, credentials)
    if not who.role.operates:
        raise Problem("forbidden", 403, "Metrics are for operators.")
    return services


@router.get("/metrics", include_in_schema=False)
async def get_metrics(services: Annotated[Services, Depends(_allowed)]) -> Response:
    figures = await services.overview.figures(ALERT_AFTER)
    return Response(exposition(figures, datetime.now(UTC)), media_type=CONTENT_TYPE)
