"""Windows: what a run of a slot reads, and how far a job has read."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from adapters.postgres.jobs import JobStore
from adapters.postgres.pool import Pool
from adapters.postgres.slots import Claim, Holder, Refusal, SlotStore
from adapters.postgres.windows import Place, Window, WindowStore
from domain.errors import Transient
from domain.ids import session_key
from domain.jobs import Job, JobStatus, Part, SlotStatus
from domain.slots import Slot
from tests.jobs import daily, said, times_read
from tests.people import accept, add_owner

SLOT = "2027-03-14"


async def a_job(pool: Pool) -> Job:
    return await JobStore(pool).create(await add_owner(pool), daily())


async def claim(pool: Pool, job: Job, slot: str = SLOT, run: str | None = None) -> Claim:
    holder = Holder(f"job:{job.id}", run or uuid4().hex, datetime.now(UTC))
    return await SlotStore(pool).claim(job.id, slot, holder)


async def opened(pool: Pool, job: Job, number: int, attempt: int = 1) -> Window | None:
    windows = WindowStore(pool)
    assigned = await windows.assigned(job.id, SLOT)
    return await windows.open(Place(job.id, SLOT, attempt, number), assigned, reads=True)


async def close(pool: Pool, job: Job, number: int, error: tuple[str, str] | None = None) -> None:
    await WindowStore(pool).close(Place(job.id, SLOT, 1, number), error)


async def get(pool: Pool, job: Job) -> Slot:
    return await SlotStore(pool).get(job.owner_id, job.id, SLOT)


def key(owner: UUID, thread: str = "thread") -> UUID:
    return session_key(owner, thread)


async def test_of_twenty_claims_one_wins_and_its_holder_may_ask_again(pool: Pool) -> None:
    job = await a_job(pool)
    runs = [uuid4().hex for _ in range(20)]
    claims = await asyncio.gather(*(claim(pool, job, run=run) for run in runs))
    [won] = [n for n, c in enumerate(claims) if c.refusal is None]
    assert {c.refusal for c in claims} == {None, Refusal.DUPLICATE}
    assert (await claim(pool, job, run=runs[won])).attempt == 1


async def test_another_slot_of_a_job_waits_for_the_one_that_runs(pool: Pool) -> None:
    """Both would read the same messages; their Schedule may have been deleted in between."""
    job, slots = await a_job(pool), SlotStore(pool)
    await claim(pool, job, run="a")
    with pytest.raises(Transient, match=SLOT):
        await claim(pool, job, slot="2027-03-15", run="b")
    assert (await claim(pool, await a_job(pool), slot="2027-03-15")).attempt == 1  # of another job
    await slots.finish(job.id, SLOT, "a", SlotStatus.COMPLETED)
    assert (await claim(pool, job, slot="2027-03-15", run="b")).attempt == 1


async def test_a_failed_or_reopened_slot_is_taken_as_a_new_attempt(pool: Pool) -> None:
    job, slots = await a_job(pool), SlotStore(pool)
    await claim(pool, job, run="a")
    assert await slots.reopen(job.owner_id, job.id, [SLOT]) == ()  # it runs
    await slots.finish(job.id, SLOT, "a", SlotStatus.FAILED, ("code", "words"))
    assert (await claim(pool, job, run="b")).attempt == 2
    assert await slots.finish(job.id, SLOT, "a", SlotStatus.COMPLETED) is None  # no longer his
    assert await slots.finish(job.id, SLOT, "b", SlotStatus.COMPLETED) == 0
    assert (await claim(pool, job, run="c")).refusal is Refusal.DUPLICATE
    assert await slots.reopen(job.owner_id, job.id, [SLOT, "2027-03-15"]) == (SLOT,)
    assert (await claim(pool, job, run="c")).reread
    await slots.finish(job.id, SLOT, "c", SlotStatus.COMPLETED)
    assert not (await get(pool, job)).reopened


async def test_reopening_can_be_taken_back_and_is_the_owners_alone(pool: Pool) -> None:
    job, slots = await a_job(pool), SlotStore(pool)
    await claim(pool, job, run="a")
    await slots.finish(job.id, SLOT, "a", SlotStatus.COMPLETED)
    assert await slots.reopen(await add_owner(pool), job.id, [SLOT]) == ()
    await slots.reopen(job.owner_id, job.id, [SLOT])
    await slots.close_again(job.owner_id, job.id, [SLOT])
    assert (await claim(pool, job)).refusal is Refusal.DUPLICATE


async def test_a_paused_job_claims_nothing(pool: Pool) -> None:
    job = await a_job(pool)
    await JobStore(pool).set_status(job.owner_id, job.id, JobStatus.PAUSED)
    assert (await claim(pool, job)).refusal is Refusal.SKIPPED
    assert await SlotStore(pool).list(job.owner_id, job.id) == []


async def test_a_window_is_cut_once_and_ends_before_an_active_run(pool: Pool) -> None:
    job = await a_job(pool)
    owner = job.owner_id
    await claim(pool, job)
    for _ in range(2):
        await said(pool, owner)
    await said(pool, owner, thread_id="other")
    await accept(pool, owner)  # is being answered
    window = await opened(pool, job, 1)
    assert window is not None
    assert window.parts == (Part(key(owner), 1, 2), Part(key(owner, "other"), 1, 1))
    await said(pool, owner, thread_id="other")
    assert await opened(pool, job, 1) == window
    await close(pool, job, 1)
    second = await opened(pool, job, 2)
    assert second is not None
    assert second.parts == (Part(key(owner, "other"), 2, 2),)


async def test_twenty_user_messages_fill_a_window(pool: Pool) -> None:
    job = await a_job(pool)
    await claim(pool, job)
    for number in range(41):
        await said(pool, job.owner_id, thread_id=f"t{number % 2}")
    sizes: list[int] = []
    while window := await opened(pool, job, len(sizes) + 1):
        sizes.append(window.user_messages)
        await close(pool, job, len(sizes))
    assert sizes == [20, 20, 1]
    assert await times_read(pool) == {1: 41}


async def test_long_messages_make_small_windows_and_the_longest_has_its_own(pool: Pool) -> None:
    job = await a_job(pool)
    await claim(pool, job)
    for size in (30_000, 30_000, 90_000, 10):
        await said(pool, job.owner_id, "x" * size)
    sizes: list[int] = []
    while window := await opened(pool, job, len(sizes) + 1):
        sizes.append(window.user_messages)
        await close(pool, job, len(sizes))
    assert sizes == [1, 1, 1, 1]


async def test_a_failed_window_leaves_the_watermark_where_it_was(pool: Pool) -> None:
    job = await a_job(pool)
    await claim(pool, job)
    await said(pool, job.owner_id)
    first = await opened(pool, job, 1)
    await close(pool, job, 1, ("invalid_output", "No."))
    await close(pool, job, 1)  # late, and changes nothing
    assert await times_read(pool) == {0: 1}
    second = await opened(pool, job, 2)
    assert first is not None
    assert second is not None
    assert second.parts == first.parts
    [window, _] = (await get(pool, job)).windows
    assert (window.status, window.error_code) == ("failed", "invalid_output")


async def test_nobody_elses_and_no_hidden_messages_are_read(pool: Pool) -> None:
    job = await a_job(pool)
    await claim(pool, job)
    await said(pool, await add_owner(pool))
    await said(pool, job.owner_id)
    await pool.execute("UPDATE messages SET hidden_from_user = true")
    assert await opened(pool, job, 1) is None
