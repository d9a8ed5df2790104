"""VARVE_CHECKPOINTS: how long people have for which question, and how often they are asked."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from domain.checkpoints import POLICIES, Scenario
from domain.desk import Manners

Seconds = Annotated[float, Field(gt=0, le=366 * 86_400)]


class Times(BaseModel):
    """Seconds from when it is put. Absent: the default; `deadline_s` null: it waits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deadline_s: Seconds | None = None
    reminders_s: Annotated[tuple[Seconds, ...], Field(max_length=20)] = ()


class Rate(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: Annotated[int, Field(ge=1)] = 3
    window_s: Seconds = 300.0


class Asking(BaseModel):
    """`{"high_risk": {"deadline_s": 600}, "rate": {"limit": 5}}`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    clarification: Times | None = None
    capability: Times | None = None
    high_risk: Times | None = None
    missing_input: Times | None = None
    retries_exhausted: Times | None = None
    cost: Times | None = None
    milestone: Times | None = None
    rate: Rate = Rate()

    def manners(self) -> Manners:
        given: Mapping[Scenario, Times] = {
            scenario: times
            for scenario in POLICIES
            if (times := getattr(self, scenario.value, None)) is not None
        }
        policies = {
            scenario: replace(policy, **given[scenario].model_dump(exclude_unset=True))
            if scenario in given
            else policy
            for scenario, policy in POLICIES.items()
        }
        return Manners(policies, self.rate.limit, self.rate.window_s)
