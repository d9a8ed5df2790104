"""Rows and workflows that disagree are mended, in both directions."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from activities.reconcile import ReconcileActivities, SweepInput
from adapters.postgres.reconcile import ReconcileStore
from adapters.postgres.runs import RunStore
from adapters.postgres.stateless import StatelessStore
from adapters.postgres.webhooks import WebhookStore
from domain.events import RunFinished, RunStatus
from domain.runs import Run
from tests.fixtures_worker import System
from tests.people import new_run
from tests.replay.corpus import keep
from workflows.reconcile import ReconcileRunsInput, ReconcileRunsWorkflow


def reconciler(system: System) -> ReconcileActivities:
    return ReconcileActivities(
        client=system.client,
        runs=RunStore(system.pool),
        store=ReconcileStore(system.pool),
        webhooks=WebhookStore(system.pool),
        stateless=StatelessStore(system.pool),
        keep=timedelta(seconds=system.settings.stateless_keep_s),
        stream=system.stream,
        run_queue=system.settings.run_queue,
    )


async def age(system: System, run: Run) -> None:
    """As if it had been accepted a minute ago."""
    await system.pool.execute(
        "UPDATE runs SET created_at = now() - interval '1 minute' WHERE id = $1", run.key
    )


def lately() -> SweepInput:
    return SweepInput(datetime.now(UTC) - timedelta(minutes=1))


async def ended(system: System, run: Run, within_s: float = 10) -> Run:
    async with asyncio.timeout(within_s):
        while not (after := await system.look(run)).status.ended:
            await asyncio.sleep(0.05)
    return after


async def test_a_terminated_workflow_fails_its_run_and_frees_the_session(system: System) -> None:
    watcher = await system.client.start_workflow(
        ReconcileRunsWorkflow.run,
        ReconcileRunsInput(0.2),
        id=f"reconcile-test/{uuid4().hex}",
        task_queue=system.settings.run_queue,
        task_timeout=timedelta(seconds=3),
    )
    run = await system.start("[[standin: first_delay_ms=30000]]", thread_id="t")
    await system.handle(run).terminate("an operator said so")
    after = await ended(system, run)
    assert (after.status, after.error_code) == (RunStatus.FAILED, "terminated")
    last = (await system.events(run))[-1]
    assert isinstance(last, RunFinished)
    assert (await system.run("again", thread_id="t")).status is RunStatus.COMPLETED
    await keep("reconciles_runs", watcher)
    await watcher.terminate()


async def test_a_run_that_was_accepted_and_never_started_is_started(system: System) -> None:
    accepted = await RunStore(system.pool).accept(new_run(system.owner, "hello"))
    await age(system, accepted.run)
    assert (await reconciler(system).sweep(lately())).started == 1
    assert (await ended(system, accepted.run)).status is RunStatus.COMPLETED


async def test_a_run_whose_workflow_is_gone_is_failed(system: System) -> None:
    accepted = await RunStore(system.pool).accept(new_run(system.owner, "hello"))
    await system.pool.execute("UPDATE runs SET status = 'running' WHERE id = $1", accepted.run.key)
    await age(system, accepted.run)
    assert (await reconciler(system).sweep(lately())).ended == 1
    assert (await system.look(accepted.run)).status is RunStatus.FAILED


async def test_what_is_in_order_is_left_alone(system: System) -> None:
    done = await system.run("hello")
    running = await system.start("[[standin: first_delay_ms=20000]]")
    await age(system, running)
    result = await reconciler(system).sweep(lately())
    assert (result.started, result.ended) == (0, 0)
    assert (await system.look(done)).status is RunStatus.COMPLETED
    assert not (await system.look(running)).status.ended
    await system.handle(running).signal("interrupt", "done here")
