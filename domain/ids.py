"""Every id that is made rather than given, in one place. Pure and deterministic.

Clients choose run ids and thread ids, and two owners may choose the same one. So what the
database and Temporal key on is derived from owner and client id together: a foreign id cannot
even be expressed, and posting the same id twice always lands on the same row and workflow.
"""

from uuid import UUID, uuid5

_RUNS = UUID("6f1d3c1e-52a7-5c0e-9c55-0a5f6f9b7e01")
_SESSIONS = UUID("6f1d3c1e-52a7-5c0e-9c55-0a5f6f9b7e02")


def run_key(owner_id: UUID, run_id: str) -> UUID:
    """The run row's key for the id a client chose."""
    return uuid5(_RUNS, f"{owner_id}:{run_id}")


def session_key(owner_id: UUID, thread_id: str) -> UUID:
    """The session row's key for the AG-UI threadId a client chose."""
    return uuid5(_SESSIONS, f"{owner_id}:{thread_id}")


AGENT_RUN = "AgentRunWorkflow"
"""The workflow type of a run, as histories and the Temporal UI have it. Never to be renamed."""

WEBHOOK = "WebhookWorkflow"
AUTOMATION = "AutomationWorkflow"
RECONCILE_JOBS = "ReconcileJobsWorkflow"
"""Types that Schedules name; these too stay as they are."""

_RUN_PREFIX = "run/"


def run_workflow_id(run_key: UUID) -> str:
    return f"{_RUN_PREFIX}{run_key}"


def webhook_workflow_id(run_key: UUID) -> str:
    return f"webhook/{run_key}"


def run_key_of(workflow_id: str) -> UUID:
    """The inverse. Raises ValueError for an id of another kind."""
    return UUID(workflow_id.removeprefix(_RUN_PREFIX))


def assistant_message_id(run_key: UUID, turn: int, attempt: int) -> str:
    """Unique per attempt: a superseded partial text and its replacement never share an id."""
    return f"msg_{run_key.hex}_{turn}_{attempt}"


def tool_call_id(run_key: UUID, turn: int, index: int) -> str:
    """Ours, not the provider's, whose ids may repeat in a thread. At most 40 characters long."""
    return f"{run_key.hex}_{turn}_{index}"


def tool_message_id(call_id: str) -> str:
    return f"tool_{call_id}"
