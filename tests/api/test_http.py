"""What holds for every answer: problems, headers, limits, and what may come in from elsewhere."""

import json
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

from structlog.testing import capture_logs

from tests.api.conftest import CORS_ORIGIN
from tests.fixtures_api import Api, Person, run_input

FILTERS = (
    "/runs?profile=%00",
    "/runs?executor=%00",
    "/runs?thread_id=%00",
    "/audit?kind=%00",
    "/audit?tool=a%00",
    "/audit?run_id=%00",
    "/audit?origin=%00",
    "/audit?executor=%00",
    "/audit?profile=%00",
    "/runs?since=0001-01-01T00:00:00%2B14:00",
    "/runs?until=9999-12-31T23:59:59-14:00",
)
NOWHERE = (
    "/runs/%00",
    "/runs/%ff",
    "/runs/" + "r" * 5_000,
    "/runs/",
    "/runs/no-such-run/events",
    "/sessions/%00/history",
    "/sessions/",
    "/profiles/%00",
    "/profiles/no_such_profile",
    "/no/such/path",
)


async def test_a_filter_that_matches_nothing_is_an_empty_list_whatever_it_says(
    alice: Person,
) -> None:
    await alice.http.post("/runs", json=run_input(), headers={"accept": "application/json"})
    for path in FILTERS:
        response = await alice.http.get(path)
        assert response.status_code in (200, 422), (path, response.text)
        if response.status_code == 200 and "since" not in path and "until" not in path:
            assert response.json() == {"items": [], "nextCursor": None}, path


async def test_parameters_that_make_no_sense_are_named(alice: Person) -> None:
    for path, field in {
        "/runs?status=paused": "status",
        "/runs?origin=mars": "origin",
        "/runs?limit=0": "limit",
        "/runs?limit=201": "limit",
        "/runs?limit=many": "limit",
        "/runs?since=yesterday": "since",
        "/runs?since=2026-11-30T08:00:00": "since",
        "/runs?cursor=x": "cursor",
        "/runs?cursor=%ff": "cursor",
        "/runs?cursor=MDAwMS0wMS0wMVQwMDowMDowMCsxNDowMCAwMDAwMDAwMC0wMDAwLTAwMDAtMDAwMC0w"
        "MDAwMDAwMDAwMDA=": "cursor",
        "/sessions?type=dream": "type",
        "/sessions?cursor=x": "cursor",
        "/audit?cursor=-1": "cursor",
        "/audit?cursor=9999999999999999999": "cursor",
    }.items():
        response = await alice.http.get(path)
        named = [error["field"] for error in response.json().get("errors", ())]
        assert (response.status_code, named) == (422, [field]), (path, response.text)


async def test_what_is_not_there_is_a_problem_too(alice: Person) -> None:
    for path in NOWHERE:
        response = await alice.http.get(path)
        assert response.status_code == 404, path
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["type"] == "/problems/not-found", path
        assert response.json()["status"] == 404


async def test_another_verb_is_a_problem_that_says_which_are_allowed(alice: Person) -> None:
    for verb, path, allowed in (
        ("DELETE", "/runs", "POST"),
        ("PUT", "/runs", "POST"),
        ("PATCH", "/runs/r1", "GET"),
        ("PUT", "/runs/r1/interrupt", "POST"),
        ("POST", "/health/live", "GET"),
    ):
        response = await alice.http.request(verb, path)
        assert response.status_code == 405, (verb, path)
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["type"] == "/problems/method-not-allowed"
        assert allowed in response.headers["allow"]


async def test_a_body_that_is_too_large_is_refused_declared_or_not(alice: Person) -> None:
    head, tail = b'{"threadId": "', b'"}'
    chunk = b"x" * 1_000_000

    async def chunks() -> AsyncGenerator[bytes]:
        yield head
        for _ in range(9):
            yield chunk
        yield tail

    headers = {"content-type": "application/json"}
    for content in (head + chunk * 9 + tail, chunks()):
        response = await alice.http.post("/runs", content=content, headers=headers)
        assert response.status_code == 413
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["type"] == "/problems/too-large"


async def test_a_page_of_a_known_origin_may_call_and_others_may_not(alice: Person) -> None:
    ask = {"access-control-request-method": "POST"}
    wanted = {"access-control-request-headers": "authorization,content-type,last-event-id"}
    known = await alice.http.options("/runs", headers={"origin": CORS_ORIGIN, **ask, **wanted})
    assert known.status_code == 200
    assert known.headers["access-control-allow-origin"] == CORS_ORIGIN
    allowed = known.headers["access-control-allow-headers"].lower()
    assert {"authorization", "content-type", "last-event-id"} <= set(allowed.split(", "))
    other = await alice.http.options("/runs", headers={"origin": "https://evil.example", **ask})
    assert "access-control-allow-origin" not in other.headers
    for path in ("/me", "/no/such/path"):
        response = await alice.http.get(path, headers={"origin": CORS_ORIGIN})
        assert response.headers["access-control-allow-origin"] == CORS_ORIGIN, path


async def test_the_document_and_the_page_about_it_need_no_key(api: Api) -> None:
    root = urlsplit(api.base_url)._replace(path="").geturl()
    document = await api.client().get("/openapi.json")
    assert json.loads(document.text)["info"]["title"] == "Varve"
    assert (await api.client().get(f"{root}/docs")).status_code == 200


async def test_a_browser_may_read_that_the_server_failed(api: Api, alice: Person) -> None:
    await api.pool.execute("ALTER TABLE sessions RENAME TO sessions_gone")
    with capture_logs() as logged:
        response = await alice.http.get("/sessions", headers={"origin": CORS_ORIGIN})
    assert response.status_code == 500
    assert [entry["event"] for entry in logged] == ["request_failed"]
    assert response.json()["type"] == "/problems/internal"
    assert response.headers["access-control-allow-origin"] == CORS_ORIGIN
