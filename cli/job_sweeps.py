"""`varve jobs reconcile` and `varve jobs migrate`: all jobs at once, on database and engine."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from activities.jobs import Counts, JobReconciler
from adapters.postgres.job_migration import JobMigration, Migrated
from adapters.postgres.job_sweep import JobSweepStore
from adapters.postgres.pool import create_pool
from adapters.postgres.slots import SlotStore
from adapters.schedules import Schedules, policy_of
from cli import where
from cli.jobs import AsJson, app
from cli.output import FAILED, aside, console, failures, show_json


@app.command()
def reconcile(as_json: AsJson = False, state: where.StateOption = where.DEFAULT_STATE) -> None:
    """Make the engine's Schedules agree with all jobs, and catch up what is owed.

    The worker does the same every few minutes. Exit code 1 if a job could not be compared.
    """
    with failures():
        counts = asyncio.run(_reconcile(state))
    if as_json:
        show_json(asdict(counts))
    else:
        _tell({name: number for name, number in asdict(counts).items() if number})
    raise typer.Exit(FAILED if counts.failed else 0)


@app.command()
def migrate(
    batch: Annotated[int, typer.Option(min=1, help="Jobs per transaction.")] = 500,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Rewrite jobs of an earlier generation; may be stopped and run again.

    Exit code 1 if the profile of a job can't be read; the log names it.
    """
    with failures():
        done = asyncio.run(_migrate(state, batch))
    if as_json:
        show_json(asdict(done))
    else:
        _tell(asdict(done))
    raise typer.Exit(FAILED if done.unreadable else 0)


async def _reconcile(state: Path) -> Counts:
    settings = where.settings(state)
    client = await where.engine(settings)
    pool = await create_pool(settings.database_url, max_size=10)
    try:
        reconciler = JobReconciler(
            client=client,
            schedules=Schedules(client, policy_of(settings)),
            sweep=JobSweepStore(pool),
            slots=SlotStore(pool),
            jitter_s=settings.job_jitter_s,
        )
        with _bar("jobs") as (bar, task):
            return await reconciler.run(
                lambda done, all: bar.update(task, completed=done, total=all)
            )
    finally:
        await pool.close()


async def _migrate(state: Path, batch: int) -> Migrated:
    pool = await create_pool(where.database_url(state), max_size=1)
    try:
        migration = JobMigration(pool)
        with _bar("old jobs") as (bar, task):
            bar.update(task, total=await migration.left())
            return await migration.run(
                batch,
                lambda done: bar.update(task, completed=done.changed + done.unreadable),
            )
    finally:
        await pool.close()


@contextmanager
def _bar(what: str) -> Generator[tuple[Progress, TaskID]]:
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=aside, transient=True) as bar:
        yield bar, bar.add_task(what, total=None)


def _tell(counts: dict[str, int]) -> None:
    said = ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in counts.items())
    console.print(said or "There are no jobs.")
