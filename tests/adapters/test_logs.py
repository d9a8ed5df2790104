"""Logs: secrets never, people's text only when debugging, whoever wrote the line."""

import json
import logging
from typing import Any

import pytest
import structlog

from adapters.logs import configure, redact


@pytest.fixture(autouse=True)
def restored() -> Any:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.mark.parametrize(
    "name", ["api_key", "Authorization", "token", "model_api_key", "password", "refresh_token"]
)
def test_a_secret_is_hidden_by_its_name(name: str) -> None:
    assert redact(None, "info", {name: "s3cret"}) == {name: "[redacted]"}


@pytest.mark.parametrize("name", ["run_key", "input_tokens", "tokens", "key", "event"])
def test_other_names_that_look_alike_are_kept(name: str) -> None:
    assert redact(None, "info", {name: "kept"}) == {name: "kept"}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("postgresql://a:s3cret@h/db", "postgresql://a:[redacted]@h/db"),
        ("redis://:s3cret@h:1/0", "redis://:[redacted]@h:1/0"),
        ("got Bearer s3cret", "got Bearer [redacted]"),
        ("vk_0a1b_" + "s" * 30, "vk_0a1b_[redacted]"),
        ("http://host/path?a=b@c", "http://host/path?a=b@c"),
    ],
)
def test_a_secret_inside_a_text_is_hidden_by_its_shape(text: str, left: str) -> None:
    assert redact(None, "error", {"error": text}) == {"error": left}


def test_secrets_deep_inside_are_found() -> None:
    event = {"request": {"headers": [{"authorization": "s3cret"}]}}
    assert "s3cret" not in str(redact(None, "debug", event))


def test_what_people_wrote_shows_only_when_debugging() -> None:
    assert redact(None, "info", {"content": "my diary"}) == {"content": "[8 long]"}
    assert redact(None, "debug", {"content": "my diary"}) == {"content": "my diary"}


def test_our_lines_and_those_of_libraries_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")
    structlog.get_logger("ours").info("run_started", run_id="r1", api_key="s3cret")
    logging.getLogger("theirs").warning("no password in %s", "redis://:s3cret@h/0")
    logging.getLogger("theirs").debug("not at this level")
    ours, theirs = lines(capsys)
    assert (ours["event"], ours["run_id"], ours["level"]) == ("run_started", "r1", "info")
    assert theirs["event"] == "no password in redis://:[redacted]@h/0"
    assert "s3cret" not in json.dumps([ours, theirs])


def test_an_exception_is_one_line_without_its_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")
    try:
        raise ValueError("postgresql://a:s3cret@h/db")
    except ValueError:
        structlog.get_logger().exception("failed")
    (line,) = lines(capsys)
    assert "ValueError" in line["exception"]
    assert "s3cret" not in line["exception"]
