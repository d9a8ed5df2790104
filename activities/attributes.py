"""Search attributes of a run, set when it is started and when it ends."""

import json
from collections.abc import Mapping
from typing import Any

from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    SearchAttributeUpdate,
    TypedSearchAttributes,
)

from domain.attributes import COST_MICRO_USD, Keyword
from domain.automation import JobRun
from domain.events import RunStatus
from domain.runs import Ended, Run, RunPlan

_MAX_BYTES = 2048  # of a value, as the JSON that the engine is sent


def at_start(run: Run | JobRun) -> TypedSearchAttributes:
    """What is known of a run when its workflow is started."""
    values: Mapping[Keyword, str | None] = {
        Keyword.OWNER_ID: str(run.owner_id),
        Keyword.SESSION_ID: _fitting(run.thread_id),
        Keyword.RUN_ID: _fitting(run.run_id),
        Keyword.ORIGIN: run.origin,
        Keyword.RUN_STATUS: run.status,
        Keyword.PROFILE: run.request.profile if isinstance(run, Run) else run.profile,
    }
    return TypedSearchAttributes(
        [
            SearchAttributePair(SearchAttributeKey.for_keyword(name), value)
            for name, value in values.items()
            if value is not None
        ]
    )


def _fitting(value: str) -> str:
    """As much of it as the engine indexes: an id of 200 characters may come to 2,400 bytes."""
    while len(json.dumps(value)) > _MAX_BYTES:
        value = value[:-1]
    return value


def at_end(ended: Ended, plan: RunPlan | None) -> list[SearchAttributeUpdate[Any]]:
    """What is known when it is over and was not before."""
    updates: list[SearchAttributeUpdate[Any]] = [
        SearchAttributeKey.for_keyword(Keyword.RUN_STATUS).value_set(ended.status),
        SearchAttributeKey.for_int(COST_MICRO_USD).value_set(ended.cost_micro_usd),
    ]
    if plan is not None:
        updates += [
            SearchAttributeKey.for_keyword(Keyword.PROFILE).value_set(plan.profile),
            SearchAttributeKey.for_keyword(Keyword.EXECUTOR).value_set(plan.executor),
        ]
    return updates


def at_standstill(still: bool) -> list[SearchAttributeUpdate[Any]]:
    """Whether a run waits for people, and for nothing else."""
    status = RunStatus.WAITING if still else RunStatus.RUNNING
    return [SearchAttributeKey.for_keyword(Keyword.RUN_STATUS).value_set(status)]


def outcome_of_job(outcome: str) -> list[SearchAttributeUpdate[Any]]:
    """How a firing of a job ended."""
    return [SearchAttributeKey.for_keyword(Keyword.RUN_STATUS).value_set(outcome)]
