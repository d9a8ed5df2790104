"""How long each kind of step may take, and how often it is tried. One place, by name."""

from datetime import timedelta

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType, ActivityConfig, LocalActivityConfig

from domain.runs import Timing


_QUICK_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=5)
)

QUICK = ActivityConfig(
    start_to_close_timeout=timedelta(seconds=15),
    schedule_to_close_timeout=timedelta(minutes=10),
    retry_policy=_QUICK_RETRY,
)
QUICK_LOCAL = LocalActivityConfig(
    start_to_close_timeout=timedelta(seconds=15),
    schedule_to_close_timeout=timedelta(minutes=10),
    retry_policy=_QUICK_RETRY,
)


def model_call(timing: Timing, remaining: timedelta, queue: str | None) -> ActivityConfig:
    """A streaming call: silent for a few heartbeats, it is somebody else's to make again."""
    config = ActivityConfig(
        schedule_to_close_timeout=remaining,
        start_to_close_timeout=remaining,
        heartbeat_timeout=timedelta(seconds=timing.heartbeat_s),
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=timing.retry_s),
            maximum_interval=timedelta(seconds=30 * timing.retry_s),
            maximum_attempts=timing.model_attempts,
        ),
    )
    if queue is not None:
        config["task_queue"] = queue
    return config


def tool_call(
    timing: Timing, remaining: timedelta, queue: str | None, *, timeout_s: float, idempotent: bool
) -> ActivityConfig:
    """A tool with effects; one that may not be repeated is tried once."""
    # The tool bounds itself; the margin is for reading the call and storing the result.
    bound = min(timedelta(seconds=timeout_s + 30), remaining)
    config = ActivityConfig(
        start_to_close_timeout=bound,
        heartbeat_timeout=timedelta(seconds=timing.heartbeat_s),
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=timing.retry_s),
            maximum_attempts=timing.tool_attempts if idempotent else 1,
        ),
    )
    if queue is not None:
        config["task_queue"] = queue
    return config
