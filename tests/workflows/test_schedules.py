"""Schedules on the real server: a year of them, firings around clock changes, drift."""

import asyncio
import tracemalloc
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleBackfill,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)

from activities.jobs import Counts, JobReconciler
from adapters.postgres.job_sweep import JobSweepStore
from adapters.postgres.jobs import JobStore
from adapters.postgres.pool import Pool
from adapters.postgres.slots import SlotStore
from adapters.schedules import Schedules
from adapters.temporal import connect, ensure_search_attributes
from cli.stack.temporal import Temporal
from domain.errors import NotFound
from domain.jobs import Job, JobChange, ScheduleType, Timetable, schedule_id
from domain.schedules import Policy
from domain.slots import expected, slot_of
from tests.domain.test_slots import TIMES, ZONES
from tests.fixtures_worker import System
from tests.jobs import Automation, awake, clock, daily, until
from tests.people import add_owner

STEP = timedelta(days=50)  # less than the reconciler looks ahead
YEAR = [date(2027, 1, 1) + timedelta(days=n) for n in range(365)]


async def no_schedules(auto: Automation) -> None:
    """Take away what other tests have left on the server."""
    async for listed in auto.schedules.list():
        await auto.schedules.delete_by_id(listed.schedule_id)


async def matching(client: Client, id: str, start: datetime, end: datetime) -> list[datetime]:
    first, last = Timestamp(), Timestamp()
    first.FromDatetime(start)
    last.FromDatetime(end)
    request = ListScheduleMatchingTimesRequest(
        namespace=client.namespace, schedule_id=id, start_time=first, end_time=last
    )
    found = await client.workflow_service.list_schedule_matching_times(request)
    return [time.ToDatetime(tzinfo=UTC) for time in found.start_time]


async def walked(client: Client, schedules: Schedules, job: Job) -> Counter[str]:
    """The slots of a year's firings, as a server sees them whose Schedule is put right at each
    step, as the reconciler does. Of a stretch the server leaves out the beginning."""
    tick, now = timedelta(seconds=1), datetime(2026, 12, 30, tzinfo=UTC)
    found = Counter[str]()
    while now.date() <= date(2028, 1, 1):
        await schedules.ensure(job, now)
        times = await matching(client, schedule_id(job.id), now - tick, now + STEP - tick)
        found.update(slot_of(job.timetable, time) for time in times)
        now += STEP
    await schedules.delete(job.id)
    return Counter({slot: n for slot, n in found.items() if slot.startswith("2027")})


@pytest.mark.parametrize("zone", ZONES)
async def test_a_year_on_the_server_has_one_slot_for_each_date(
    temporal: Client, pool: Pool, zone: str
) -> None:
    """Firings that come twice share a slot, and the claim lets one of them through."""
    schedules = Schedules(temporal, Policy("nobody", jitter_s=0))
    owner, jobs = await add_owner(pool), JobStore(pool)
    made = [await jobs.create(owner, daily(run_at, zone)) for run_at in TIMES]
    years = await asyncio.gather(*(walked(temporal, schedules, job) for job in made))
    for job, year in zip(made, years, strict=True):
        assert sorted(year) == [day.isoformat() for day in YEAR], job.timetable
        assert sum(year.values()) - len(year) <= 1  # an overlap


async def test_firings_around_clock_changes_run_each_date_once(system: System) -> None:
    """Fired by the real Schedule: a time that was left out, and one that came twice."""
    async with awake(system) as auto:
        gap = await auto.create(daily("02:30", "America/New_York"))
        twice = await auto.create(daily("01:30", "America/New_York"))
        await auto.schedules.ensure(gap, datetime(2025, 3, 20, tzinfo=UTC))
        await auto.schedules.ensure(twice, datetime(2025, 11, 10, tzinfo=UTC))
        handle = system.client.get_schedule_handle(schedule_id(gap.id))
        await handle.backfill(_whole("2025-03-08", "2025-03-11"))
        handle = system.client.get_schedule_handle(schedule_id(twice.id))
        await handle.backfill(_whole("2025-11-02", "2025-11-04"))
        slots = await auto.ended(gap, 3)
        assert [s.slot for s in slots] == ["2025-03-08", "2025-03-09", "2025-03-10"]
        assert slots[1].scheduled_at == datetime(2025, 3, 9, 7, tzinfo=UTC)
        slots = await auto.ended(twice, 2)
        await until(lambda: _idle(auto, twice))
        assert [(s.slot, s.attempt) for s in slots] == [("2025-11-02", 1), ("2025-11-03", 1)]
        assert slots[0].scheduled_at == datetime(2025, 11, 2, 5, 30, tzinfo=UTC)
    assert await runs_of(system) == 5


async def test_firings_every_second_of_one_date_are_one_run(system: System) -> None:
    async with awake(system) as auto:
        job = await auto.create(daily())
        await auto.schedules.ensure(job, datetime.now(UTC))
        handle = system.client.get_schedule_handle(schedule_id(job.id))

        def faster(input: ScheduleUpdateInput) -> ScheduleUpdate:
            every = ScheduleIntervalSpec(every=timedelta(seconds=1))
            schedule = input.description.schedule
            return ScheduleUpdate(replace(schedule, spec=ScheduleSpec(intervals=[every])))

        await handle.update(faster)

        async def fired() -> bool:
            return (await handle.describe()).info.num_actions >= 3

        await until(fired)
        assert await auto.schedules.ensure(job, datetime.now(UTC)) == "updated"
        await until(lambda: _idle(auto, job))
        slots = await auto.all_slots(job)
    assert await runs_of(system) == len({slot.slot for slot in slots}) == len(slots) <= 2


async def test_moving_over_the_date_line_and_back_misses_no_date(system: System) -> None:
    async with awake(system) as auto:
        job = await auto.owe(await auto.create(daily("00:00", "Pacific/Honolulu")), 3)
        for zone in ("Pacific/Honolulu", "Pacific/Tongatapu", "Pacific/Honolulu"):
            job = await auto.jobs.update(system.owner, job.id, JobChange(timezone=zone))
            dues = expected(job.timetable, job.expected_from, datetime.now(UTC))
            have = {slot.slot for slot in await auto.all_slots(job)}
            new = [due.slot for due in dues if due.slot not in have]
            assert (await auto.reconciler.run()).caught_up == len(new)
            await auto.ended(job, len(have) + len(new))
            await until(partial(_idle, auto, job))
        slots = [slot.slot for slot in await auto.all_slots(job)]
    first = date.fromisoformat(slots[0])
    assert slots == [(first + timedelta(days=n)).isoformat() for n in range(len(slots))]
    assert await runs_of(system) == len(slots) >= 3


async def test_what_was_forced_apart_is_mended_at_once_and_reported(system: System) -> None:
    auto = Automation(system)
    await no_schedules(auto)
    jobs = [await auto.create(daily()) for _ in range(9)]
    assert (await auto.reconciler.run()).created == 9
    await settled(auto, 9)
    assert (await auto.reconciler.run()).mended == 0

    client, pool = system.client, system.pool
    stranger = replace(jobs[0], id=uuid4())
    await auto.schedules.ensure(stranger, datetime.now(UTC))  # a Schedule without row
    await auto.schedules.delete(jobs[0].id)  # a row without Schedule
    for job, column, value in (
        (jobs[1], "run_at", "23:59"),
        (jobs[2], "timezone", "Europe/London"),
        (jobs[3], "status", "paused"),
        (jobs[4], "status", "deleted"),
    ):
        await _force(pool, job.id, column, value)
    await client.get_schedule_handle(schedule_id(jobs[5].id)).pause()  # in the engine's console

    def other_time(input: ScheduleUpdateInput) -> ScheduleUpdate:
        spec = replace(input.description.schedule.spec, time_zone_name="Asia/Tokyo")
        return ScheduleUpdate(replace(input.description.schedule, spec=spec))

    await client.get_schedule_handle(schedule_id(jobs[6].id)).update(other_time)
    await _force(pool, jobs[7].id, "status", "paused")
    await auto.schedules.ensure(await auto.jobs.get_by_id(jobs[7].id), datetime.now(UTC))
    await _force(pool, jobs[7].id, "status", "active")  # still paused in the engine
    await settled(auto, 9)

    counts = await auto.reconciler.run()
    assert counts == Counts(jobs=8, created=1, updated=4, paused=1, resumed=1, deleted=2)
    await settled(auto, 8)
    assert (await auto.reconciler.run()).mended == 0
    assert (await auto.schedules.describe(jobs[3].id)).paused
    assert not (await auto.schedules.describe(jobs[5].id)).paused
    with pytest.raises(NotFound):
        await auto.schedules.describe(stranger.id)


async def test_schedules_of_others_are_left_alone(system: System) -> None:
    auto = Automation(system)
    await no_schedules(auto)
    action = ScheduleActionStartWorkflow("SomebodyElses", id="else", task_queue="nobody")
    interval = ScheduleIntervalSpec(every=timedelta(days=9))
    theirs = Schedule(action=action, spec=ScheduleSpec(intervals=[interval]))
    ids = [f"job:{uuid4()}", "job:cleanup"]
    for id in ids:
        await system.client.create_schedule(id, theirs)
    await settled(auto, 2)
    assert (await auto.reconciler.run()).deleted == 0
    for id in ids:
        await system.client.get_schedule_handle(id).describe()
    await no_schedules(auto)


async def test_one_unreadable_job_does_not_stop_the_others(system: System) -> None:
    auto = Automation(system)
    await no_schedules(auto)
    good, bad = await auto.create(daily()), await auto.create(daily())
    await _force(system.pool, bad.id, "timezone", "Mars/Base")
    counts = await auto.reconciler.run()
    assert (counts.created, counts.failed > 0) == (1, True)
    assert (await auto.schedules.describe(good.id)).next_at


async def test_the_rows_mirror_what_is_next_and_what_is_missing(system: System) -> None:
    auto = Automation(system)
    due = datetime.now(UTC) - timedelta(minutes=1)
    job = await auto.owe(await auto.create(daily(clock(due), "UTC")), 2)
    await system.pool.execute("UPDATE automation_jobs SET next_run_at = NULL")
    await auto.reconciler.run()
    after = await auto.jobs.get_by_id(job.id)
    assert after.missed == 2
    assert after.next_run_at == due.replace(second=0, microsecond=0) + timedelta(days=1)


@pytest.mark.parametrize(
    "times",
    [
        Timetable(ScheduleType.WEEKLY, "02:30", "America/New_York", 7),
        Timetable(ScheduleType.CRON, "*/7 3-5 13 * FRI", "Europe/London"),
        Timetable(ScheduleType.ONCE, "2098-02-03T04:05+00:00", "UTC"),
    ],
    ids=lambda times: times.type,
)
async def test_each_type_is_what_the_engine_makes_of_it(system: System, times: Timetable) -> None:
    """The server's firings are those that we count on, and its listing says nothing is to do."""
    auto = Automation(system)
    await no_schedules(auto)
    job = await auto.create(replace(daily(), timetable=times))
    start = datetime(2098, 1, 30, tzinfo=UTC)
    await auto.schedules.ensure(job, start)
    found = await matching(system.client, schedule_id(job.id), start, start + STEP)
    dues = [due.at for due in expected(job.timetable, start, start + STEP)]
    assert found == dues != []
    now = datetime.now(UTC)
    await auto.schedules.ensure(job, now)
    await settled(auto, 1)
    want = auto.schedules.desired(job, now)
    assert want is not None
    assert [auto.schedules.differs(want, item) async for item in auto.schedules.list()] == [False]


async def test_memory_does_not_grow_with_the_number_of_jobs(
    temporal_of_its_own: Client, pool: Pool
) -> None:
    schedules = Schedules(temporal_of_its_own, Policy("nobody", jitter_s=0))
    owner, peaks = await add_owner(pool), list[int]()
    for jobs in (40, 160):
        await pool.execute(
            """
            INSERT INTO automation_jobs (owner_id, title, schedule_type, run_at, timezone, config,
                                         execution_profile)
            SELECT $1, 'Daily', 'daily', '10:00', 'UTC', '{"prompt": "x", "tools": []}', '"p"'
            FROM generate_series(1, $2)
            """,
            owner,
            jobs,
        )
        sweeper = JobReconciler(
            client=temporal_of_its_own,
            schedules=schedules,
            sweep=JobSweepStore(pool),
            slots=SlotStore(pool),
            jitter_s=0,
            bucket=10,
        )
        assert (await sweeper.run()).created == jobs
        tracemalloc.start()
        counts = await sweeper.run()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert counts.failed == 0
    assert counts.jobs == 200
    assert peaks[1] < 1.5 * peaks[0]


@pytest.fixture
async def temporal_of_its_own(servers_dir: Path) -> AsyncGenerator[Client]:
    """A server that ends with the test, and its hundreds of Schedules with it."""
    async with _temporal(servers_dir / f"temporal-{uuid4().hex}") as client:
        yield client


@asynccontextmanager
async def _temporal(folder: Path) -> AsyncGenerator[Client]:
    server = Temporal(folder, folder.with_suffix(".log"))
    server.child.dies_with_parent = True
    await server.start()
    try:
        client = await connect(server.address, "default")
        await ensure_search_attributes(client)
        yield client
    finally:
        await server.stop()


async def settled(auto: Automation, count: int) -> None:
    """The engine's list has caught up with what was done: so many Schedules, each as it is."""

    async def same() -> bool:
        listed = [item async for item in auto.schedules.list()]
        if len(listed) != count:
            return False
        for item in listed:
            handle = auto.system.client.get_schedule_handle(item.schedule_id)
            described = (await handle.describe()).schedule
            shown = item.listing.schedule
            if shown is None or shown.state.paused != described.state.paused:
                return False
            if (shown.state.note, shown.spec) != (described.state.note, described.spec):
                return False
        return True

    await until(same)


async def _idle(auto: Automation, job: Job) -> bool:
    return not (await auto.schedules.describe(job.id)).busy


async def runs_of(system: System) -> int:
    return await system.pool.fetchval("SELECT count(*) FROM runs WHERE origin = 'automation'")


def _whole(first: str, last: str) -> ScheduleBackfill:
    start, end = datetime.fromisoformat(first), datetime.fromisoformat(last)
    return ScheduleBackfill(
        start.replace(tzinfo=UTC), end.replace(tzinfo=UTC), ScheduleOverlapPolicy.BUFFER_ALL
    )


async def _force(pool: Pool, job_id: UUID, column: str, value: str) -> None:
    """Change a row behind the store's back."""
    await pool.execute(
        """
        UPDATE automation_jobs SET
            run_at = CASE WHEN $2 = 'run_at' THEN $3 ELSE run_at END,
            timezone = CASE WHEN $2 = 'timezone' THEN $3 ELSE timezone END,
            status = CASE WHEN $2 = 'status' THEN $3 ELSE status END
        WHERE id = $1
        """,
        job_id,
        column,
        value,
    )
