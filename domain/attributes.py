"""Names of the search attributes by which the Temporal UI finds runs: ids, enums, one number."""

from enum import StrEnum


class Keyword(StrEnum):
    OWNER_ID = "OwnerId"
    SESSION_ID = "SessionId"
    RUN_ID = "AgentRunId"  # "RunId" is the engine's own
    EXECUTOR = "Executor"
    PROFILE = "Profile"
    ORIGIN = "Origin"
    RUN_STATUS = "RunStatus"
    TASK_TYPE = "TaskType"


COST_MICRO_USD = "CostMicroUsd"
