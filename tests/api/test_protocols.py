"""The protocol documents say what the code does: no route, member, event or code is left out."""

import re
from pathlib import Path

import pytest

from activities.ending import LOST
from api.app import PREFIX, ROOT
from api.job_input import BackfillBody, JobBody, TriggerBody
from api.job_views import BackfillView, ChangedJobView, SlotRunView, TriggerView, WindowView
from api.run_input import RunInput, VarveOptions
from api.sse import FIELDS
from domain.errors import ErrorCode
from domain.identity import Scope
from tests.api.paths import Operation, operations

PROTOCOLS = Path(__file__).parents[2] / "docs" / "protocols" / "agent"
PAGES = [("api-endpoints.md", PREFIX), ("automation.md", ROOT)]


def _text(name: str) -> str:
    return (PROTOCOLS / name).read_text("utf-8")


def _page(one: Operation) -> str:
    return "automation.md" if one.path.startswith("/automation") else "api-endpoints.md"


@pytest.mark.parametrize(("page", "prefix"), PAGES)
def test_the_endpoints_documents_have_every_route_and_no_other(page: str, prefix: str) -> None:
    written = set(re.findall(r"^#+ `([A-Z]+ /[^`?]*)`", _text(page), re.MULTILINE))
    assert written == {str(one) for one in operations() if _page(one) == page}
    assert prefix in _text(page)


@pytest.mark.parametrize("page", [page for page, _ in PAGES])
def test_the_endpoints_documents_name_every_query_parameter(page: str) -> None:
    text = _text(page)
    sections = dict(re.findall(r"^#+ `([^`]+)`\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL))
    for one in operations():
        if _page(one) != page:
            continue
        for parameter in one.details.get("parameters", ()):
            if parameter["in"] == "query":
                assert f"`{parameter['name']}" in sections[str(one)], f"{one} {parameter['name']}"


def test_the_endpoints_document_names_every_scope() -> None:
    text = _text("api-endpoints.md")
    assert all(f"| `{scope}` |" in text for scope in Scope)


def test_the_automation_document_names_every_member_of_a_job() -> None:
    text = _text("automation.md")
    for member in ChangedJobView.model_fields.keys() | JobBody.model_fields.keys():
        assert re.search(rf"^\| .*`{member}`.* \|", text, re.MULTILINE), member
    shown = (SlotRunView, WindowView, TriggerView, BackfillView)
    asked = (TriggerBody, BackfillBody)
    for member in {name for model in (*shown, *asked) for name in model.model_fields}:
        assert f'"{member}"' in text, member


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
