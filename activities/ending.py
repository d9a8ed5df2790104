"""End a run whose workflow is gone: the one way, whoever finds out."""

from uuid import UUID

from adapters.postgres.runs import RunStore
from adapters.stream import EventStream

LOST = "terminated"
STOPPED = "The run was stopped from outside."


async def end_lost(
    runs: RunStore, stream: EventStream, run_key: UUID, reason: str = STOPPED
) -> bool:
    """Fail it and tell its readers; False if it had ended."""
    recorded = await runs.end_lost(run_key, LOST, reason)
    if recorded is None:
        return False
    await stream.publish(run_key, [recorded])
    return True
