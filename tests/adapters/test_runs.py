"""Accepting, withdrawing and ending runs, against PostgreSQL."""

import asyncio
from dataclasses import replace

import pytest

from adapters.postgres.events import EventStore
from adapters.postgres.messages import MessageStore
from adapters.postgres.pool import Pool, create_pool
from adapters.postgres.runs import RunFilter, RunStore
from domain.errors import InvalidInput, NotFound, RunConflict, SessionBusy
from domain.events import RunFinished, RunStarted, RunStatus, position
from domain.runs import Ending
from tests.people import add_owner, begin, new_run

DONE = Ending(RunStatus.COMPLETED)


async def test_an_accepted_run_has_its_message_and_its_first_event(pool: Pool) -> None:
    owner = await add_owner(pool)
    accepted = await RunStore(pool).accept(new_run(owner, "hi", run_id="r1"))
    assert accepted.created
    assert accepted.started is not None
    assert accepted.started.position == position(1)
    assert await EventStore(pool).load(accepted.run.key) == [accepted.started]
    assert accepted.started.event == RunStarted("thread", "r1", 1)
    [message] = await MessageStore(pool).conversation(accepted.run.session_key, 1)
    assert (message.content, message.seq) == ("hi", 1)


async def test_the_same_request_twice_is_one_run(pool: Pool) -> None:
    owner = await add_owner(pool)
    new = new_run(owner, "hi", run_id="r1")
    first, second = await RunStore(pool).accept(new), await RunStore(pool).accept(new)
    assert (first.created, second.created) == (True, False)
    assert first.run == second.run


async def test_a_run_id_with_another_body_is_a_conflict(pool: Pool) -> None:
    owner = await add_owner(pool)
    await RunStore(pool).accept(new_run(owner, "hi", run_id="r1"))
    with pytest.raises(RunConflict):
        await RunStore(pool).accept(new_run(owner, "something else", run_id="r1"))


async def test_two_owners_may_choose_the_same_ids(pool: Pool) -> None:
    ada, bob = await add_owner(pool), await add_owner(pool)
    store = RunStore(pool)
    mine = await store.accept(new_run(ada, "mine", run_id="r", message_id="m"))
    theirs = await store.accept(new_run(bob, "theirs", run_id="r", message_id="m"))
    assert mine.run.key != theirs.run.key
    assert (await store.get(ada, "r")).owner_id == ada
    assert [run.key for run in await store.list(bob, RunFilter(), 10)] == [theirs.run.key]


async def test_of_twenty_requests_at_once_one_runs_and_the_others_learn_which(pool: Pool) -> None:
    owner = await add_owner(pool)
    store = RunStore(pool)
    outcomes = await asyncio.gather(
        *(store.accept(new_run(owner, str(i), run_id=f"r{i}")) for i in range(20)),
        return_exceptions=True,
    )
    [winner] = [o for o in outcomes if not isinstance(o, BaseException)]
    losers = [o for o in outcomes if isinstance(o, SessionBusy)]
    assert len(losers) == 19
    assert {o.active_run_id for o in losers} == {winner.run.run_id}


async def test_a_request_without_a_new_message_is_refused_by_field(pool: Pool) -> None:
    owner = await add_owner(pool)
    store = RunStore(pool)
    first = new_run(owner, "hi")
    accepted = await store.accept(first)
    await store.finish(accepted.run.key, DONE)
    with pytest.raises(InvalidInput) as raised:
        await store.accept(replace(first, run_id="another"))
    assert raised.value.field == "messages"


async def test_messages_are_numbered_densely_over_runs_and_withdrawals(pool: Pool) -> None:
    owner = await add_owner(pool)
    store = RunStore(pool)
    one = await store.accept(new_run(owner, "1"))
    await store.finish(one.run.key, DONE)
    withdrawn = await store.accept(new_run(owner, "never", run_id="w"))
    assert await store.withdraw(withdrawn.run.key)
    assert not await store.withdraw(withdrawn.run.key)
    await store.accept(new_run(owner, "2", run_id="w"))
    messages = await MessageStore(pool).conversation(one.run.session_key, 10)
    assert [(m.seq, m.content) for m in messages] == [(1, "1"), (2, "2")]


async def test_a_run_that_began_is_not_withdrawn(pool: Pool) -> None:
    owner = await add_owner(pool)
    store = RunStore(pool)
    accepted = await store.accept(new_run(owner))
    await begin(pool, accepted.run.key)
    assert not await store.withdraw(accepted.run.key)


async def test_a_run_ends_once_and_frees_its_session(pool: Pool) -> None:
    owner = await add_owner(pool)
    store = RunStore(pool)
    run = (await store.accept(new_run(owner))).run
    first, now = await store.finish(run.key, Ending(RunStatus.FAILED, "x", "It broke."))
    again, later = await store.finish(run.key, DONE)
    assert (now, later) == (True, False)
    assert first == again
    assert first is not None
    assert isinstance(first.event, RunFinished)
    assert (first.event.status, first.event.message) == (RunStatus.FAILED, "It broke.")
    assert (await store.accept(new_run(owner))).created


async def test_an_unknown_run_is_not_found(pool: Pool) -> None:
    with pytest.raises(NotFound):
        await RunStore(pool).get(await add_owner(pool), "nope")


async def test_a_new_session_is_opened_once_however_many_want_it(database_url: str) -> None:
    pool = await create_pool(database_url, max_size=12)
    owner, store = await add_owner(pool), RunStore(pool)
    for n in range(20):
        wanted = [new_run(owner, thread_id=f"thread-{n}") for _ in range(12)]
        outcomes = await asyncio.gather(*map(store.accept, wanted), return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, SessionBusy)]
        assert len(refused) == 11, outcomes
    await pool.close()


async def test_one_run_id_in_two_sessions_at_once_is_one_run(database_url: str) -> None:
    pool = await create_pool(database_url, max_size=8)
    owner, store = await add_owner(pool), RunStore(pool)
    for n in range(10):
        wanted = [new_run(owner, run_id=f"run-{n}", thread_id=f"{n}-{k}") for k in range(8)]
        outcomes = await asyncio.gather(*map(store.accept, wanted), return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, RunConflict)]
        assert len(refused) == 7, outcomes
    await pool.close()
