"""Translate our errors into Temporal's, in one place."""

from collections.abc import Generator
from contextlib import contextmanager

from temporalio.exceptions import ApplicationError

from domain.errors import NotFound, Permanent, StaleAttempt, Transient


@contextmanager
def translated() -> Generator[None]:
    """Inside: our errors. Outside: ApplicationErrors whose type is our error code."""
    try:
        yield
    except Permanent as error:
        raise ApplicationError(str(error), type=error.code, non_retryable=True) from error
    except Transient as error:
        raise ApplicationError(
            str(error), type=error.code, next_retry_delay=error.retry_after
        ) from error
    except (NotFound, StaleAttempt) as error:
        raise ApplicationError(str(error), type=type(error).__name__, non_retryable=True) from error
