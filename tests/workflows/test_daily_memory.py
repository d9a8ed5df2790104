"""The day's memory job, from a firing to the facts it leaves."""

import asyncio

import pytest
from temporalio.client import WorkflowFailureError

from adapters.postgres.jobs import JobStore
from adapters.postgres.users import UserStore
from domain.events import RunStatus
from domain.ids import session_key
from domain.jobs import Job, Part, SlotStatus
from tests.extracting import extract, facts
from tests.fixtures_standin import Standin
from tests.fixtures_worker import System
from tests.jobs import Automation, awake, said

MANY = 45


async def memory_job(system: System) -> tuple[Automation, Job]:
    """A new user's own job, in the system of that user."""
    user = await UserStore(system.pool).add_user("ada", timezone="Europe/London")
    theirs = Automation(System(system.settings, system.client, system.pool, system.stream, user.id))
    [job] = await JobStore(system.pool).list(user.id)
    return theirs, job


async def test_a_day_with_many_messages_is_read_once_in_windows(system: System) -> None:
    ada, job = await memory_job(system)
    for number in range(MANY):
        await said(system.pool, job.owner_id, f"My key{number} is v{number}.")
    result = await ada.fire(job)
    assert (result.outcome, result.windows) == ("completed", 3)
    assert await facts(ada.system) == {f"key{n}": f"v{n}" for n in range(MANY)}
    read = await system.pool.fetchval("SELECT count(*) FROM fact_evidence")
    assert read == MANY
    visible = await system.pool.fetchval(
        "SELECT count(*) FROM messages m JOIN sessions s ON s.id = m.session_id "
        "WHERE s.type = 'automation' AND NOT m.hidden_from_user"
    )
    assert visible == 0


async def test_the_same_day_three_times_leaves_identical_rows(system: System) -> None:
    ada, job = await memory_job(system)
    for text in ("My name is Ada. I live in Rome.", "I live in Oslo.", "我喜欢乌龙茶。"):
        await said(system.pool, job.owner_id, text)
    everything = "SELECT * FROM facts ORDER BY id"
    evidence = "SELECT * FROM fact_evidence ORDER BY fact_id, session_id, message_id"
    seen: list[list[tuple[object, ...]]] = []
    for _ in range(3):
        result = await ada.fire(job)
        assert result.outcome == "completed"
        rows = await system.pool.fetch(everything) + await system.pool.fetch(evidence)
        seen.append([tuple(row) for row in rows])
        await ada.slots.reopen(job.owner_id, job.id, [result.slot or ""])
    assert len(seen[0]) > 4
    assert seen[0] == seen[1] == seen[2]


async def test_twenty_extractions_side_by_side_write_no_fact_twice(system: System) -> None:
    ada, job = await memory_job(system)
    for text in ("My name is Ada.", "My cat is Tom.", "我的名字是小明。"):
        await said(system.pool, job.owner_id, text)
    part = Part(session_key(job.owner_id, "thread"), 1, 3)
    async with awake(ada.system) as here:
        runs = await asyncio.gather(*(extract(here.system, part) for _ in range(20)))
    assert {run.status for run in runs} == {RunStatus.COMPLETED}
    assert await facts(ada.system) == {"cat": "Tom", "name": "Ada", "名字": "小明"}
    assert await system.pool.fetchval("SELECT count(*) FROM facts") == 3


async def test_an_invalid_answer_fails_the_slot_and_the_next_firing_reads_again(
    system: System, standin: Standin
) -> None:
    ada, job = await memory_job(system)
    await said(system.pool, job.owner_id, "My name is Ada.")
    await standin.control(reset=True, next=["say=nonsense"] * 2)
    with pytest.raises(WorkflowFailureError):
        await ada.fire(job)
    [slot] = await ada.all_slots(job)
    assert (slot.status, slot.error_code) == (SlotStatus.FAILED, "invalid_output")
    assert await facts(ada.system) == {}
    assert (await ada.fire(job)).attempt == 2
    assert await facts(ada.system) == {"name": "Ada"}
