"""Search attributes of a run: ids and enums only, so that the Temporal UI can find and filter."""

from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

from domain.events import RunStatus
from domain.runs import RunPlan

OWNER_ID = SearchAttributeKey.for_keyword("OwnerId")
SESSION_ID = SearchAttributeKey.for_keyword("SessionId")
RUN_ID = SearchAttributeKey.for_keyword("RunId")
EXECUTOR = SearchAttributeKey.for_keyword("Executor")
PROFILE = SearchAttributeKey.for_keyword("Profile")
ORIGIN = SearchAttributeKey.for_keyword("Origin")
RUN_STATUS = SearchAttributeKey.for_keyword("RunStatus")
TASK_TYPE = SearchAttributeKey.for_keyword("TaskType")
COST = SearchAttributeKey.for_int("CostMicroUsd")


def at_end(status: RunStatus, plan: RunPlan | None) -> list[SearchAttributeUpdate]:
    """What is known when a run is over and was not when it was started."""
    updates: list[SearchAttributeUpdate] = [RUN_STATUS.value_set(status)]
    if plan is not None:
        updates += [PROFILE.value_set(plan.profile), EXECUTOR.value_set(plan.executor)]
    return updates


