"""What can go wrong with a provider → Transient or Permanent, in words a person understands."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, cast

import openai

from domain.errors import ErrorCode, OutsideError, Permanent, Transient
from domain.text import clean

_LONGEST = 300  # characters of a provider's own words that are passed on
_CONTEXT = re.compile(
    r"context.?(?:length|window)|maximum.{0,20}(?:context|prompt|input)|too many (?:input )?tokens"
    r"|(?:prompt|input|request).{0,20}too (?:long|large)|range of input length|reduce the length",
    re.IGNORECASE,
)
_FILTER = re.compile(
    r"content.?(?:filter|policy|management)|data_?inspection|inappropriate content|moderation",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"insufficient.?(?:quota|balance)|arrearage|billing", re.IGNORECASE)


def from_call(error: Exception) -> OutsideError:
    """For an exception of the SDK or of the transport beneath it."""
    if isinstance(error, openai.APIStatusError):
        details = _details(error.body)
        after = retry_after(error.response.headers, datetime.now(UTC))
        return classify(error.status_code, *details, after)
    # The transports disagree about the class of a refused connection, not about its root.
    if isinstance(_root(error), TimeoutError):
        return Transient("The model did not answer in time.", ErrorCode.TIMEOUT)
    return Transient("The connection to the model failed.", ErrorCode.CONNECTION)


def from_stream(error: object) -> OutsideError:
    """For the error object that a provider sends in the middle of a stream."""
    slug, words = _details(error)
    if slug.isdigit() and 400 <= int(slug) < 600:
        return classify(int(slug), "", words)
    if re.search(r"rate.?limit", f"{slug} {words}", re.IGNORECASE):
        return classify(429, slug, words)
    if _CONTEXT.search(f"{slug} {words}") or _FILTER.search(f"{slug} {words}"):
        return classify(400, slug, words)
    return classify(500, slug, words)


def classify(status: int, slug: str, words: str, after: timedelta | None = None) -> OutsideError:
    """An error by its HTTP status, the provider's slug and words, and what it asks us to wait."""
    said = f"{slug} {words}"
    quote = f": {words}" if words else "."
    if status in (401, 403):  # without the provider's words, which may repeat part of the key
        return Permanent(
            f"The model endpoint refused the API key (HTTP {status}).", ErrorCode.AUTHENTICATION
        )
    if status == 402 or (status == 429 and _QUOTA.search(said)):
        return Permanent(f"The provider's quota is used up{quote}", ErrorCode.RATE_LIMIT)
    if status == 429:
        return Transient(f"The provider limits the rate{quote}", ErrorCode.RATE_LIMIT, after)
    if status == 408:
        return Transient("The model did not answer in time.", ErrorCode.TIMEOUT, after)
    if status >= 500 or status in (409, 425):
        text = f"The provider is overloaded or broken (HTTP {status}){quote}"
        return Transient(text, ErrorCode.OVERLOADED, after)
    return _refusal(status, said, quote)


def _refusal(status: int, said: str, quote: str) -> Permanent:
    if status == 413 or _CONTEXT.search(said):
        return Permanent(
            f"The conversation is too long for the model{quote}", ErrorCode.CONTEXT_LENGTH
        )
    if _FILTER.search(said):
        return Permanent(
            f"The provider's content filter refused the conversation{quote}",
            ErrorCode.CONTENT_FILTER,
        )
    if status == 404:
        text = f"The endpoint does not know this model or address (HTTP 404){quote}"
        return Permanent(text, ErrorCode.BAD_REQUEST)
    return Permanent(
        f"The provider refused the request (HTTP {status}){quote}", ErrorCode.BAD_REQUEST
    )


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Retry-After (seconds or a date) or retry-after-ms; None if absent, past or unreadable."""
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            wait = timedelta(milliseconds=float(milliseconds))
        elif (value := headers.get("retry-after", "")).replace(".", "", 1).isdigit():
            wait = timedelta(seconds=float(value))
        elif value:
            wait = parsedate_to_datetime(value) - now
        else:
            return None
    except (ValueError, TypeError, OverflowError):
        return None
    return max(wait, timedelta())


def _details(body: object) -> tuple[str, str]:
    """The slug and the words of an error body, in any of the shapes that are about."""
    if not isinstance(body, Mapping):
        return "", ""  # an HTML page says nothing to a person
    fields = cast("Mapping[str, Any]", body)
    nested = fields.get("error")
    if isinstance(nested, Mapping):
        fields = cast("Mapping[str, Any]", nested)
    slug = str(fields.get("code") or fields.get("type") or "")
    words = str(fields.get("message") or (nested if isinstance(nested, str) else ""))
    return slug, clean(words)[:_LONGEST].strip()


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
