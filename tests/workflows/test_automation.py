"""A job fires, through the production worker and the real engine's Schedules."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from temporalio.client import ScheduleActionExecutionStartWorkflow, WorkflowFailureError

from activities.jobs import Counts
from adapters.postgres.messages import SessionStore
from adapters.postgres.runs import RunFilter, RunStore
from adapters.schedules import RECONCILE_SCHEDULE
from domain.events import RunStatus
from domain.jobs import MEMORY_TOOLS, JobStatus, ScheduleType, SlotStatus, Timetable
from domain.messages import Origin
from domain.profiles import SessionType
from tests.fixtures_worker import System, serving
from tests.jobs import Automation, awake, clock, daily, said, times_read, until
from tests.replay.corpus import keep

MEMORY = "automation_memory_default"
FACTS = """
SELECT f.*, array_agg(e.message_id ORDER BY e.place) AS evidence
FROM facts f JOIN fact_evidence e ON e.fact_id = f.id GROUP BY f.id ORDER BY f.id
"""


async def test_a_slot_runs_once_and_a_second_firing_is_a_duplicate(system: System) -> None:
    auto = Automation(system)
    job = await auto.create(daily())
    first = await auto.start(job)
    result = await first.result()
    again = await auto.fire(job)
    assert (result.outcome, result.windows) == ("completed", 1)
    assert (again.outcome, again.slot) == ("duplicate_slot", result.slot)
    [slot] = await auto.all_slots(job)
    assert (slot.status, slot.attempt, len(slot.windows)) == (SlotStatus.COMPLETED, 1, 1)
    [run] = await RunStore(system.pool).list(system.owner, RunFilter(), 10)
    assert (run.origin, run.run_id) == (Origin.AUTOMATION, slot.windows[0].run_id)
    await keep("fires_a_job", first)


async def test_five_firings_at_once_are_one_run(system: System) -> None:
    async with awake(system) as auto:
        job = await auto.create(daily())
        results = await asyncio.gather(*(auto.fire(job) for _ in range(5)))
    assert sorted(r.outcome for r in results) == ["completed", *["duplicate_slot"] * 4]
    assert len(await RunStore(system.pool).list(system.owner, RunFilter(), 10)) == 1


async def test_the_input_message_is_hidden_and_its_session_is_no_chat(system: System) -> None:
    auto = Automation(system)
    job = await auto.create(daily())
    await auto.fire(job)
    row = await system.pool.fetchrow("SELECT * FROM messages WHERE role = 'user'")
    assert row is not None
    assert (row["hidden_from_user"], row["content"]) == (True, "Say what happened.")
    sessions = SessionStore(system.pool)
    assert await sessions.list(system.owner) == []
    assert len(await sessions.list(system.owner, type=SessionType.AUTOMATION)) == 1


async def test_a_heavy_day_is_several_windows_and_each_message_is_in_one(system: System) -> None:
    auto = Automation(system)
    for thread in ("a", "b"):
        for number in range(23):
            await said(system.pool, system.owner, f"{number}", thread)
    job = await auto.create(daily(profile=MEMORY))
    firing = await auto.start(job)
    result = await firing.result()
    assert (result.outcome, result.windows) == ("completed", 3)
    assert [w.user_messages for w in (await auto.all_slots(job))[0].windows] == [20, 20, 6]
    assert await times_read(system.pool) == {1: 46}
    duplicate = await auto.start(job)
    assert (await duplicate.result()).outcome == "duplicate_slot"
    await keep("fires_a_job_in_windows", firing)
    await keep("fires_a_slot_that_is_taken", duplicate)


async def test_a_day_with_nothing_new_calls_no_model(system: System) -> None:
    auto = Automation(system)
    job = await auto.create(daily(profile=MEMORY))
    result = await auto.fire(job)
    assert (result.outcome, result.windows) == ("nothing_new", 0)
    assert await RunStore(system.pool).list(system.owner, RunFilter(), 10) == []


async def test_a_failed_run_fails_its_slot_and_the_third_in_a_row_is_an_alert(
    system: System,
) -> None:
    auto = Automation(system)
    job = await auto.create(daily(prompt="[[standin: status=401]]"))
    for attempt in (1, 2, 3):
        failed = await auto.start(job)
        with pytest.raises(WorkflowFailureError):
            await failed.result()
        [slot] = await auto.all_slots(job)
        assert (slot.status, slot.attempt) == (SlotStatus.FAILED, attempt)
        assert slot.error_code == "authentication"
    after = await auto.jobs.get_by_id(job.id)
    assert (after.status, after.failed_in_a_row) == (JobStatus.ACTIVE, 3)
    assert await system.pool.fetchval("SELECT count(*) FROM audit WHERE kind = 'job_alert'") == 1
    await keep("fires_a_job_that_fails", failed)


async def test_an_asked_for_slot_reads_the_same_again(system: System) -> None:
    auto = Automation(system)
    for _ in range(3):
        await said(system.pool, system.owner)
    job = await auto.create(daily(profile=MEMORY))
    first = await auto.fire(job)
    assert first.slot is not None
    await said(system.pool, system.owner)
    for attempt in (2, 3):
        assert await auto.slots.reopen(system.owner, job.id, [first.slot]) == (first.slot,)
        again = await auto.fire(job)
        assert (again.outcome, again.attempt) == ("completed", attempt)
    parts = [
        row["parts"]
        for row in await system.pool.fetch(
            "SELECT parts FROM job_windows WHERE number = 1 ORDER BY attempt"
        )
    ]
    assert len(set(parts)) == 1
    assert [w.user_messages for w in (await auto.all_slots(job))[0].windows] == [3, 3, 1, 3, 1]


async def test_the_same_day_three_times_leaves_identical_rows(system: System) -> None:
    auto = Automation(system)
    for text in ("My name is Ada.", "I live in Bern.", "我喜欢乌龙茶。", "My name is Eve."):
        await said(system.pool, system.owner, text)
    job = await auto.create(daily(profile=MEMORY, tools=MEMORY_TOOLS))
    rows: list[str] = []
    for _ in range(3):
        result = await auto.fire(job)
        assert result.outcome == "completed"
        rows.append(str([dict(row) for row in await system.pool.fetch(FACTS)]))
        await auto.slots.reopen(system.owner, job.id, [result.slot or ""])
    assert rows[0] == rows[1] == rows[2]
    assert rows[0].count("'key'") == 4  # one of them superseded


async def test_a_paused_or_deleted_job_is_skipped_with_the_reason(system: System) -> None:
    auto = Automation(system)
    job = await auto.create(daily())
    for status in (JobStatus.PAUSED, JobStatus.DELETED):
        await auto.jobs.set_status(system.owner, job.id, status)
        result = await auto.fire(job)
        assert (result.outcome, result.reason) == ("skipped", f"The job is {status}.")
    assert await auto.all_slots(job) == []


async def test_two_due_dates_without_workers_are_caught_up_in_order(system: System) -> None:
    due = datetime.now(UTC) - timedelta(minutes=2)
    config = system.settings.model_copy(update={"run_queue": f"asleep-{uuid4().hex}"})
    auto = Automation(replace(system, settings=config))
    job = await auto.owe(await auto.create(daily(clock(due), "UTC")), 1)
    job = await auto.owe(job, 2)
    counts = await auto.reconciler.run()
    assert (counts.created, counts.caught_up, counts.missed) == (1, 2, 2)
    again = await auto.reconciler.run()
    assert (again.caught_up, again.missed) == (0, 2)  # they wait for a worker
    assert (await auto.jobs.get_by_id(job.id)).missed == 2
    async with serving(config, system.client, system.pool, max_cached_workflows=0):
        slots = await auto.ended(job, 2)
        assert [slot.status for slot in slots] == [SlotStatus.COMPLETED] * 2
        assert slots[0].finished_at is not None
        assert slots[0].finished_at <= slots[1].started_at
        assert [slot.scheduled_at.date() for slot in slots] == [
            (due - timedelta(days=1)).date(),
            due.date(),
        ]
    assert (await auto.reconciler.run()).missed == 0
    assert len(await RunStore(system.pool).list(system.owner, RunFilter(), 10)) == 2


async def test_a_trigger_while_the_slot_fires_is_one_run(system: System) -> None:
    auto = Automation(system)
    job = await auto.create(daily(prompt="[[standin: first_delay_ms=500]]"))
    await auto.schedules.ensure(job, datetime.now(UTC))
    for _ in range(3):
        await auto.schedules.trigger(job.id)
        await asyncio.sleep(0.1)
    await auto.ended(job, 1)

    async def quiet() -> bool:
        return not (await auto.schedules.describe(job.id)).busy

    await until(quiet)
    assert len(await RunStore(system.pool).list(system.owner, RunFilter(), 10)) == 1


async def test_a_terminated_firing_is_found_and_its_slot_may_run_again(system: System) -> None:
    async with awake(system) as auto:
        job = await auto.create(daily(prompt="[[standin: first_delay_ms=20000 times=1 id=slow]]"))
        handle = await auto.start(job)

        async def running() -> bool:
            runs = await RunStore(system.pool).list(system.owner, RunFilter(), 1)
            return bool(runs) and runs[0].status is RunStatus.RUNNING

        await until(running)
        await handle.terminate("an operator said so")
        assert (await auto.reconciler.run()).ended == 1
        [slot] = await auto.all_slots(job)
        assert (slot.status, slot.error_code) == (SlotStatus.FAILED, "terminated")
        again = await auto.fire(job)
    assert (again.outcome, again.attempt) == ("completed", 2)
    runs = await RunStore(system.pool).list(system.owner, RunFilter(), 10)
    assert [run.status for run in runs] == [RunStatus.COMPLETED, RunStatus.INTERRUPTED]


async def test_the_reconciler_is_a_workflow_that_its_own_schedule_starts(system: System) -> None:
    async with awake(system) as auto:
        job = await auto.create(daily())
        await system.pool.execute(
            "INSERT INTO facts (owner_id, key, value) VALUES ($1, 'tea', 'oolong')", system.owner
        )
        await auto.schedules.ensure_reconciler(3600)
        await auto.schedules.ensure_reconciler(1800)  # a worker with another setting came up
        handle = system.client.get_schedule_handle(RECONCILE_SCHEDULE)
        await handle.trigger()

        async def done() -> bool:
            return (await handle.describe()).info.num_actions == 1

        await until(done)
        [action] = (await handle.describe()).info.recent_actions
        started = action.action
        assert isinstance(started, ScheduleActionExecutionStartWorkflow)
        sweep = system.client.get_workflow_handle(started.workflow_id, result_type=Counts)
        assert (await sweep.result()).created == 1
        await handle.delete()
        assert (await auto.schedules.describe(job.id)).next_at
    words = await system.pool.fetchval("SELECT value_words FROM facts")
    assert words == ["oolong"]
    await keep("reconciles_jobs_and_indexes_facts", sweep)


async def test_a_profile_that_is_gone_fails_the_slot_in_words(system: System) -> None:
    auto = Automation(system)
    job = await auto.create(daily(profile="no_such_profile"))
    with pytest.raises(WorkflowFailureError):
        await auto.fire(job)
    [slot] = await auto.all_slots(job)
    assert (slot.status, slot.error_code) == (SlotStatus.FAILED, "profile")
    assert "no_such_profile" in (slot.error_message or "")


async def test_an_inline_profile_is_used_and_old_fields_are_left_behind(system: System) -> None:
    auto = Automation(system)
    profile = {
        "name": "mine",
        "executor": "worker",
        "model": {"name": "qwen3.5-flash"},
        "enable_router": True,
        "history_policy": {"window": "today_yesterday"},
    }
    job = await auto.create(daily(profile=profile))
    assert (await auto.fire(job)).outcome == "completed"
    [run] = await RunStore(system.pool).list(system.owner, RunFilter(), 10)
    assert (run.status, run.profile) == (RunStatus.COMPLETED, "mine")
    for query in (
        "SELECT * FROM automation_jobs",
        "SELECT * FROM job_slots",
        "SELECT * FROM runs",
    ):
        text = str([dict(row) for row in await system.pool.fetch(query)])
        assert "enable_router" not in text
        assert "today_yesterday" not in text


async def test_a_tool_that_is_no_longer_registered_is_denied_and_audited(system: System) -> None:
    auto = Automation(system)
    job = await auto.create(daily(tools=("memory_search", "gone_tool")))
    assert (await auto.fire(job)).outcome == "completed"
    row = await system.pool.fetchrow("SELECT tool, detail FROM audit WHERE kind = 'tool_denied'")
    assert row is not None
    assert row["tool"] == "gone_tool"


async def test_a_once_job_is_completed_by_its_run_and_needs_no_schedule(system: System) -> None:
    auto = Automation(system)
    at = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    job = await auto.create(replace(daily(), timetable=Timetable(ScheduleType.ONCE, at, "UTC")))
    assert (await auto.reconciler.run()).created == 1
    assert (await auto.fire(job)).outcome == "completed"
    assert (await auto.jobs.get_by_id(job.id)).status is JobStatus.COMPLETED
    assert (await auto.reconciler.run()).deleted == 1
