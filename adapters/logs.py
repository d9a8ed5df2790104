"""Structured logs: one line per event on standard error, without secrets and people's text."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Literal, cast

import structlog

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["json", "text"]

REDACTED = "[redacted]"

_SECRET_NAME = re.compile(
    r"(?:^|_|-)(?:api_?key|authorization|token|password|passwd|secret|cookie)$", re.IGNORECASE
)
_SECRET_TEXT = re.compile(
    r"(?P<url>://[^\s:/@]*:)[^\s@]+(?=@)"  # a password in an address
    r"|(?P<bearer>\bBearer\s+)\S+"
    r"|\bvk_(?P<prefix>[0-9a-f]+)_[A-Za-z0-9_-]{20,}"  # our keys: the prefix may be shown
    r"|\bsk-[A-Za-z0-9_-]{16,}"  # most providers' keys
)
_PEOPLES_TEXT = frozenset({"content", "text", "arguments", "prompt", "messages", "answer", "delta"})

EventDict = MutableMapping[str, Any]


def configure(level: Level, format: Format) -> None:
    """Send our logs and those of libraries through one chain. Called once per process, first."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        redact,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), _without_colours, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _renderer(format),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in ("httpx2", "httpcore2", "asyncio"):  # they tell of every request at info
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _without_colours(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """uvicorn says everything twice, the second time for a terminal."""
    event.pop("color_message", None)
    return event


def redact(_logger: Any, method: str, event: EventDict) -> EventDict:
    """Take out secrets, always, and what people wrote, except at debug."""
    hide_text = method != "debug"
    return {name: _clean(name, value, hide_text=hide_text) for name, value in event.items()}


def _clean(name: str, value: Any, *, hide_text: bool) -> Any:
    if _SECRET_NAME.search(name) and value is not None:
        return REDACTED
    if hide_text and name in _PEOPLES_TEXT:
        return f"[{len(value)} long]" if isinstance(value, str) else REDACTED
    match value:
        case str():
            return _SECRET_TEXT.sub(_mask, value)
        case dict():
            items = cast("dict[Any, Any]", value).items()
            return {key: _clean(str(key), item, hide_text=hide_text) for key, item in items}
        case list() | tuple():
            parts = cast("list[Any]", value)
            return [_clean("", part, hide_text=hide_text) for part in parts]
        case _:
            return value


def _mask(found: re.Match[str]) -> str:
    if prefix := found["prefix"]:
        return f"vk_{prefix}_{REDACTED}"
    return f"{found['url'] or found['bearer'] or ''}{REDACTED}"


def _renderer(format: Format) -> structlog.typing.Processor:
    if format == "text":
        return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    return structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
