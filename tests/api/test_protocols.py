"""The protocol documents say what the code does: no route, member, event or code is left out."""

import re
from pathlib import Path

from activities.ending import LOST
from api.app import PREFIX
from api.run_input import RunInput, VarveOptions
from api.sse import FIELDS
from domain.errors import ErrorCode
from domain.identity import Scope
from tests.api.paths import operations

PROTOCOLS = Path(__file__).parents[2] / "docs" / "protocols" / "agent"


def _text(name: str) -> str:
    return (PROTOCOLS / name).read_text("utf-8")


def test_the_endpoints_document_has_every_route_and_no_other() -> None:
    text = _text("api-endpoints.md")
    written = set(re.findall(r"^#+ `([A-Z]+ /[^`?]*)`", text, re.MULTILINE))
    assert written == {str(one) for one in operations()}
    assert PREFIX in text


def test_the_endpoints_document_names_every_query_parameter() -> None:
    text = _text("api-endpoints.md")
    sections = dict(re.findall(r"^#+ `([^`]+)`\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL))
    for one in operations():
        for parameter in one.details.get("parameters", ()):
            if parameter["in"] == "query":
                assert f"`{parameter['name']}" in sections[str(one)], f"{one} {parameter['name']}"


def test_the_endpoints_document_names_every_scope() -> None:
    text = _text("api-endpoints.md")
    assert all(f"| `{scope}` |" in text for scope in Scope)


def test_the_input_document_names_every_member_that_is_read() -> None:
    text = _text("run-agent-input.md")
    members = {field.alias for field in RunInput.model_fields.values()} - {"forwardedProps"}
    for member in members | VarveOptions.model_fields.keys():
        assert f"| `{member}` |" in text, member


def test_the_events_document_names_every_event_every_code_and_every_extension() -> None:
    text = _text("sse-events.md")
    for name in (*FIELDS, *ErrorCode, LOST, "cancelled", "stream_closed"):
        assert re.search(rf"`{name}\b", text), name
    for name in ("varve.retry", "varve.gap", "varve.budget", "varve.memory"):
        assert f"| `{name}` |" in text, name
