"""How long each kind of step may take, and how often it is tried. One place, by name."""

from datetime import timedelta

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType, ActivityConfig, LocalActivityConfig

from domain.runs import CallRef, Timing

_QUICK_RETRY = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=5)
)

_QUICK_START_TO_CLOSE = timedelta(seconds=15)
_QUICK_SCHEDULE_TO_CLOSE = timedelta(minutes=10)


def quick(summary: str) -> ActivityConfig:
    """A step of milliseconds on our own database, as an activity of its own."""
    return ActivityConfig(
        summary=summary,
        start_to_close_timeout=_QUICK_START_TO_CLOSE,
        schedule_to_close_timeout=_QUICK_SCHEDULE_TO_CLOSE,
        retry_policy=_QUICK_RETRY,
    )


def quick_local(summary: str) -> LocalActivityConfig:
    """The same inside the workflow task."""
    return LocalActivityConfig(
        summary=summary,
        start_to_close_timeout=_QUICK_START_TO_CLOSE,
        schedule_to_close_timeout=_QUICK_SCHEDULE_TO_CLOSE,
        retry_policy=_QUICK_RETRY,
    )


def model_call(
    summary: str, timing: Timing, remaining: timedelta, queue: str | None
) -> ActivityConfig:
    """A streaming call: silent for a few heartbeats, it is somebody else's to make again."""
    config = ActivityConfig(
        summary=summary,
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
    call: CallRef, timing: Timing, remaining: timedelta, queue: str | None
) -> ActivityConfig:
    """A tool with effects; one that may not be repeated is tried once."""
    # The tool bounds itself; the margin is for reading the call and storing the result.
    bound = min(timedelta(seconds=call.timeout_s + 30), remaining)
    config = ActivityConfig(
        summary=f"tool {call.name}",
        start_to_close_timeout=bound,
        heartbeat_timeout=timedelta(seconds=timing.heartbeat_s),
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=timing.retry_s),
            maximum_attempts=timing.tool_attempts if call.idempotent else 1,
        ),
    )
    if queue is not None:
        config["task_queue"] = queue
    return config
