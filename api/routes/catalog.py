"""What there is to choose from: profiles, models, tools; and which traffic gets which profile."""

import json
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from adapters.postgres.audit import AuditEntry
from adapters.profile_format import dump
from api.fields import Text
from api.identity import AnyCaller, ProfileWriter
from api.problems import Problem, documented, invalid
from api.state import Of
from api.views import ModelView, RolloutView, ToolView
from domain.identity import Caller
from domain.profiles import Profile

router = APIRouter(tags=["catalog"])


class RolloutBody(BaseModel):
    """A null owner matches everyone. Rules are asked by priority, lowest first."""

    model_config = ConfigDict(extra="forbid")

    profile: Text
    percentage: float = Field(ge=0, le=100, description="Share of the matching owners")
    owner_id: UUID | None = None
    priority: int = Field(100, ge=0, le=1_000_000)


@router.get("/profiles", summary="Profiles you may use", responses=documented())
async def list_profiles(services: Of, who: AnyCaller) -> list[dict[str, Any]]:
    return [_profile(profile) for profile in services.profiles.visible_to(who.role)]


@router.get("/profiles/{name}", summary="A profile", responses=documented(404))
async def get_profile(name: str, services: Of, who: AnyCaller) -> dict[str, Any]:
    for profile in services.profiles.visible_to(who.role):
        if profile.name == name:
            return _profile(profile)
    raise Problem("not-found", 404, f"There is no profile {name!r} for you.")


@router.get("/models", summary="Models that your profiles call", responses=documented())
async def list_models(services: Of, who: AnyCaller) -> list[ModelView]:
    used: dict[str, list[str]] = {}
    for profile in services.profiles.visible_to(who.role):
        for name in (profile.model.name, *profile.model.fallback):
            used.setdefault(name, []).append(profile.name)
    return [ModelView(name=name, profiles=used[name]) for name in sorted(used)]


@router.get("/tools", summary="Every registered tool", responses=documented())
async def list_tools(services: Of, who: AnyCaller) -> list[ToolView]:
    return [
        ToolView(
            name=spec.name,
            description=spec.description,
            parameters=dict(spec.parameters),
            kind=spec.kind,
            risk=spec.risk,
            off_by_default=spec.off_by_default,
        )
        for spec in services.tools.specs.values()
    ]


@router.get("/rollouts", summary="Rollout rules, first match first", responses=documented(403))
async def list_rollouts(services: Of, who: AnyCaller) -> list[RolloutView]:
    _operator(who)
    return [RolloutView.of(row) for row in await services.rollouts.list()]


@router.post(
    "/rollouts",
    summary="Give a share of the traffic another profile, at once",
    status_code=201,
    responses=documented(403),
)
async def add_rollout(body: RolloutBody, services: Of, who: ProfileWriter) -> RolloutView:
    _operator(who)
    if body.profile not in {profile.name for profile in services.profiles.all()}:
        raise invalid("profile", f"There is no profile {body.profile!r}.")
    row = await services.rollouts.add(
        body.profile,
        body.percentage,
        owner_id=body.owner_id,
        task_type=None,
        priority=body.priority,
        created_by=who.id,
    )
    await services.audit.append(
        AuditEntry(
            owner_id=who.id,
            actor_id=who.id,
            kind="rollout_added",
            profile=body.profile,
            detail={"rollout": row.rule.id, **body.model_dump(mode="json")},
        )
    )
    return RolloutView.of(row)


@router.delete(
    "/rollouts/{rollout_id}",
    summary="Take a rule back",
    status_code=204,
    responses=documented(403, 404),
)
async def remove_rollout(rollout_id: UUID, services: Of, who: ProfileWriter) -> None:
    _operator(who)
    await services.rollouts.remove(rollout_id)
    await services.audit.append(
        AuditEntry(
            owner_id=who.id,
            actor_id=who.id,
            kind="rollout_removed",
            detail={"rollout": str(rollout_id)},
        )
    )


def _profile(profile: Profile) -> dict[str, Any]:
    return json.loads(dump(profile))


def _operator(who: Caller) -> None:
    if not who.role.operates:
        raise Problem("forbidden", 403, "Rollouts are for operators.")
