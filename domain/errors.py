"""How things go wrong, in our own words. Adapters and stores raise these; the edges translate."""

from datetime import timedelta
from enum import StrEnum


class ErrorCode(StrEnum):
    """A stable slug for a failed outside call. Clients switch on it, never on the text."""

    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    CONNECTION = "connection"
    AUTHENTICATION = "authentication"
    BAD_REQUEST = "bad_request"
    CONTEXT_LENGTH = "context_length"
    CONTENT_FILTER = "content_filter"
    INVALID_RESPONSE = "invalid_response"
    INVALID_OUTPUT = "invalid_output"  # an answer of the model that is not in the form asked for
    INTERNAL = "internal"


class OutsideError(Exception):
    """An outside call failed; `code` says how, the message is for a person."""

    def __init__(self, message: str, code: ErrorCode, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after = retry_after


class Transient(OutsideError):
    """Worth trying again, perhaps after `retry_after`."""


class Permanent(OutsideError):
    """Will fail the same way every time."""


class NotFound(Exception):
    """No such thing for this owner (it may exist for another)."""


class StaleAttempt(Exception):
    """A newer attempt of the same step has taken over; this one must write nothing."""


class SessionBusy(Exception):
    """The session already has an active run."""

    def __init__(self, active_run_id: str) -> None:
        super().__init__(f"The session is busy with run {active_run_id}.")
        self.active_run_id = active_run_id


class RunConflict(Exception):
    """The run id is taken by a request with a different body."""


class InvalidInput(ValueError):
    """A field of what the caller gave is wrong; `field` is its dotted path."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
