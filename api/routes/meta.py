"""About this server and about the caller."""

import asyncio
from collections.abc import Awaitable
from importlib.metadata import version
from typing import Any

from ag_ui.core import capabilities as ag
from ag_ui.core.types import Tool
from fastapi import APIRouter, Response
from redis.asyncio import Redis
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest

from adapters.stream import TROUBLE
from api.identity import AnyCaller
from api.problems import documented
from api.state import Of, Services
from api.views import HealthView, MeView, PartView

router = APIRouter(tags=["about"])

_PATIENCE_S = 2.0


@router.get("/me", summary="Who you are", responses=documented())
async def get_me(who: AnyCaller) -> MeView:
    user = who.user
    return MeView(
        user_id=user.id,
        name=user.name,
        role=user.role,
        locale=user.locale,
        timezone=user.timezone,
        scopes=sorted(who.scopes),
    )


@router.get(
    "/capabilities",
    summary="What this agent can do, as AG-UI AgentCapabilities",
    responses=documented(),
)
async def get_capabilities(services: Of, who: AnyCaller) -> dict[str, Any]:
    tools = [
        Tool(name=spec.name, description=spec.description, parameters=dict(spec.parameters))
        for spec in services.tools.specs.values()
    ]
    found = ag.AgentCapabilities(
        identity=ag.IdentityCapabilities(
            name="Varve",
            type="varve",
            description="A durable agent runtime",
            version=version("varve"),
        ),
        transport=ag.TransportCapabilities(streaming=True, resumable=True),
        tools=ag.ToolsCapabilities(
            supported=True, items=tools, parallel_calls=True, client_provided=False
        ),
        state=ag.StateCapabilities(
            snapshots=True, deltas=False, memory=True, persistent_state=False
        ),
        human_in_the_loop=ag.HumanInTheLoopCapabilities(
            supported=True,
            approvals=True,
            interventions=True,
            interrupts=True,
            approve_with_edits=True,
        ),
    )
    return found.model_dump(mode="json", by_alias=True, exclude_none=True)


@router.get("/health/live", summary="The process answers")
async def get_live() -> HealthView:
    return HealthView(status="ready", parts={})


@router.get(
    "/health/ready",
    summary="What the process needs answers too",
    responses={503: {"model": HealthView, "description": "Database or engine is away"}},
)
async def get_ready(services: Of, response: Response) -> HealthView:
    """Without Redis the server is degraded, not unavailable: text then comes turn by turn."""
    database, redis, temporal = await asyncio.gather(
        _part(_database(services)), _part(_redis(services.redis)), _part(_temporal(services))
    )
    parts = {"database": database, "redis": redis, "temporal": temporal}
    down = {name for name, part in parts.items() if part.status == "down"}
    if down - {"redis"}:
        response.status_code = 503
        return HealthView(status="unavailable", parts=parts)
    return HealthView(status="degraded" if down else "ready", parts=parts)


async def _part(check: Awaitable[None]) -> PartView:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await check
    except Exception as error:  # whatever it is, it is what the caller asked about
        return PartView(status="down", detail=type(error).__name__)
    return PartView(status="up")


async def _database(services: Services) -> None:
    await services.pool.fetchval("SELECT 1")


async def _redis(redis: Redis) -> None:
    """Twice, since a pooled connection from before a restart of Redis is dead."""
    try:
        await redis.execute_command("PING")
    except TROUBLE:
        await redis.execute_command("PING")


async def _temporal(services: Services) -> None:
    client = services.temporal
    await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=client.namespace)
    )
