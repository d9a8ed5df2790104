"""Coming back to a run: with the last event id, without one, and when the live stream is gone."""

from redis.asyncio import Redis

from adapters.postgres.pool import Pool
from adapters.stream import stream_key
from domain.events import SPAN
from domain.ids import run_key
from tests.fixtures_api import Api, Person, Sent, accepted, parse, run_input
from tests.fixtures_worker import System

SAY = "[[standin: tokens=30 delay_ms=1]]"
READ = '[[standin: turn=1 call=memory_search args={"query":"tea"}]]'


async def _run(person: Person, text: str = SAY) -> list[Sent]:
    return parse((await person.http.post("/runs", json=run_input(text, run_id="r"))).text)


def _text(sent: list[Sent]) -> str:
    return "".join(s.frame["delta"] for s in sent if s.frame["type"] == "TEXT_MESSAGE_CONTENT")


async def test_after_any_event_the_rest_comes_as_it_was_by_header_or_query(served: Api) -> None:
    ann = await served.person("ann")
    whole = await _run(ann)
    assert parse((await ann.http.get("/runs/r/events")).text) == whole
    for place in {0, 2, 3, len(whole) // 2, len(whole) - 2}:
        cursor = str(whole[place].id)
        for response in (
            await ann.http.get("/runs/r/events", headers={"last-event-id": cursor}),
            await ann.http.get("/runs/r/events", params={"last_event_id": cursor}),
        ):
            assert parse(response.text) == whole[place + 1 :]


async def test_after_the_last_event_there_is_nothing_more_to_say(served: Api) -> None:
    ann = await served.person("ann")
    last = (await _run(ann))[-1].id
    response = await ann.http.get("/runs/r/events", headers={"last-event-id": str(last)})
    assert (response.status_code, response.content) == (204, b"")


async def test_a_cursor_that_no_event_of_the_run_has_is_refused(alice: Person) -> None:
    await accepted(alice, run_id="r")
    for bad in ("x", "-1", "1.5", "٣", "0", "9999999", str(2 * SPAN), "9" * 18, "9" * 50, "1 0"):
        for response in (
            await alice.http.get("/runs/r/events", params={"last_event_id": bad}),
            await alice.http.get("/runs/r/events", headers=[(b"last-event-id", bad.encode())]),
        ):
            assert (response.status_code, response.json()["type"]) == (400, "/problems/bad-cursor")
            assert response.headers["content-type"] == "application/problem+json"


async def test_when_the_live_stream_is_gone_text_and_true_ending_come_from_the_database(
    served: Api, system: System
) -> None:
    ann = await served.person("ann")
    whole = await _run(ann)
    async with Redis.from_url(system.settings.redis_url) as redis:
        assert await redis.delete(stream_key(run_key(ann.user.id, "r"))) == 1
    late = parse((await ann.http.get("/runs/r/events")).text)
    assert _text(late) == _text(whole)
    assert late[-1] == whole[-1]
    ids = [one.id for one in late if one.id is not None]
    assert ids == sorted(set(ids))
    middle = len(whole) // 2
    rest = await ann.http.get("/runs/r/events", headers={"last-event-id": str(whole[middle].id)})
    assert _text(whole[: middle + 1]) + _text(parse(rest.text)) == _text(whole)


async def test_a_run_that_failed_says_so_again_and_again(served: Api, pool: Pool) -> None:
    ann = await served.person("ann")
    first = await _run(ann, "[[standin: status=400]]")
    assert first[-1].frame["type"] == "RUN_ERROR"
    assert first[-1].frame["code"] == "bad_request"
    assert parse((await ann.http.get("/runs/r/events")).text) == first
    assert (await ann.http.get("/runs/r")).json()["errorCode"] == "bad_request"


async def test_a_reader_that_leaves_stops_nothing(served: Api) -> None:
    ann = await served.person("ann")
    async with ann.http.stream("POST", "/runs", json=run_input(SAY, run_id="r")) as response:
        async for _ in response.aiter_bytes():
            break
    sent = parse((await ann.http.get("/runs/r/events")).text)
    assert sent[-1].frame["type"] == "RUN_FINISHED"


async def test_a_tool_call_and_its_result_are_replayed_with_the_run(served: Api) -> None:
    ann = await served.person("ann")
    whole = await _run(ann, READ)
    kinds = [one.frame["type"] for one in whole]
    start = kinds.index("TOOL_CALL_START")
    assert kinds[start : start + 3] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
    assert kinds.count("TOOL_CALL_RESULT") == 1
    rest = await ann.http.get("/runs/r/events", headers={"last-event-id": str(whole[start].id)})
    assert parse(rest.text) == whole[start + 1 :]
