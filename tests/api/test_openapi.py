"""The OpenAPI document is complete."""

import re

from api.app import PREFIX
from tests.api.paths import OPEN, document, operations
from tests.fixtures_api import Api

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
        if one.path.startswith(("/runs", "/sessions", "/audit", "/rollouts", "/automation")):
            assert "403" in statuses, str(one)


def test_every_reference_leads_somewhere_and_every_operation_has_an_id_of_its_own() -> None:
    whole = document()
    references = set(re.findall(r"#/components/schemas/([\w.-]+)", str(whole)))
    assert references <= whole["components"]["schemas"].keys()
    ids = [one.details["operationId"] for one in operations()]
    assert len(ids) == len(set(ids))


async def test_the_page_about_it_needs_nothing_from_elsewhere(api: Api) -> None:
    server = api.client()
    root = api.base_url.removesuffix(PREFIX)
    page = (await server.get(f"{root}/docs")).text
    sources = re.findall(r"(?:src|href)=\"([^\"]+)\"", page)
    assert len(sources) >= 2
    for source in sources:
        assert source.startswith("/"), source
        assert (await server.get(root + source)).status_code == 200, source
