"""The OpenAPI document and the protocol documents are complete and say the same."""

import re
from pathlib import Path

from api.app import PREFIX
from tests.api.paths import OPEN, document, operations

PROTOCOLS = Path(__file__).parents[2] / "docs" / "protocols" / "agent"
PROBLEM = {"$ref": "#/components/schemas/ProblemBody"}


def test_every_operation_says_what_it_is_who_may_call_it_and_what_comes_back() -> None:
    schemes = document()["components"]["securitySchemes"]
    for one in operations():
        details, where = one.details, str(one)
        assert details["summary"], where
        assert len(details["tags"]) == 1, where
        if one.path in OPEN:
            assert "security" not in details, where
        else:
            assert [list(way) for way in details["security"]] == [list(schemes)], where
            assert {"401", "422", "503"} <= details["responses"].keys(), where
        for parameter in details.get("parameters", ()):
            assert "schema" in parameter, where


def test_every_answer_has_a_schema_and_every_refusal_is_a_problem() -> None:
    for one in operations():
        for status, answer in one.details["responses"].items():
            where = f"{one} {status}"
            assert answer["description"], where
            if status == "204":
                assert "content" not in answer, where
            elif status < "400" or one.path in OPEN:
                assert all(body["schema"] for body in answer["content"].values()), where
            else:
                assert answer["content"]["application/problem+json"]["schema"] == PROBLEM, where


def test_what_needs_something_that_may_be_missing_or_forbidden_says_so() -> None:
    for one in operations():
        statuses = one.details["responses"].keys()
        if "{" in one.path:
            assert "404" in statuses, str(one)
        if one.path.startswith(("/runs", "/sessions", "/audit", "/rollouts")):
            assert "403" in statuses, str(one)


def test_every_reference_leads_somewhere_and_every_operation_has_an_id_of_its_own() -> None:
    whole = document()
    references = set(re.findall(r"#/components/schemas/([\w.-]+)", str(whole)))
    assert references <= whole["components"]["schemas"].keys()
    ids = [one.details["operationId"] for one in operations()]
    assert len(ids) == len(set(ids))


def test_the_endpoints_document_has_every_route_and_no_other() -> None:
    text = (PROTOCOLS / "api-endpoints.md").read_text("utf-8")
    written = set(re.findall(r"^#+ `([A-Z]+ /[^`?]*)`", text, re.MULTILINE))
    assert written == {str(one) for one in operations()}
    assert PREFIX in text


def test_the_endpoints_document_names_every_query_parameter() -> None:
    text = (PROTOCOLS / "api-endpoints.md").read_text("utf-8")
    sections = dict(re.findall(r"^#+ `([^`]+)`\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL))
    for one in operations():
        for parameter in one.details.get("parameters", ()):
            if parameter["in"] == "query":
                assert f"`{parameter['name']}" in sections[str(one)], f"{one} {parameter['name']}"
