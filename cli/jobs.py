"""`varve jobs …`: what an agent does by itself, over the API."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from cli import where
from cli.automation import Automation
from cli.client import ApiError
from cli.job_tables import COLUMNS, row_of, show_asked, show_job, show_slots
from cli.output import FAILED, aside, failures, show_json, show_rows
from domain.errors import InvalidInput
from domain.jobs import JobStatus, ScheduleType

app = typer.Typer(
    no_args_is_help=True,
    help="Jobs. Exit codes: 0 done; 1 failed or refused; 2 usage; 3 that slot has run, or the job "
    "is not active; 4 no such job.",
)

T = TypeVar("T")
_CODES = {HTTPStatus.CONFLICT: 3, HTTPStatus.NOT_FOUND: 4}

JobName = Annotated[
    str, typer.Argument(metavar="JOB", help="Id, its beginning, or `daily_memory`.")
]
Owner = Annotated[
    str | None, typer.Option(help="Operators: act for the user with this id; it is recorded.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Title = Annotated[str | None, typer.Option(help="What it is called.")]
Prompt = Annotated[str | None, typer.Option(help="What the agent is told.")]
Type = Annotated[ScheduleType | None, typer.Option("--type", help="How often.")]
At = Annotated[
    str | None,
    typer.Option(help="HH:MM (daily, weekly), instant with offset (once), five fields (cron)."),
]
Weekday = Annotated[int | None, typer.Option(help="1 (Monday) to 7 (Sunday); weekly only.")]
Zone = Annotated[str | None, typer.Option(help="IANA time zone; for a new job: the owner's.")]
Tool = Annotated[list[str] | None, typer.Option(help="May be given several times.")]
Profile = Annotated[
    str | None, typer.Option(help="Name of an execution profile, or a file *.json with one.")
]


@app.command("list")
def list_jobs(
    status: Annotated[JobStatus | None, typer.Option()] = None,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """List jobs, newest first."""
    jobs = _with_api(state, owner, lambda api: api.jobs(status))
    if as_json:
        show_json(jobs)
    else:
        show_rows(COLUMNS, [row_of(job) for job in jobs])


@app.command()
def show(
    job: JobName,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Show a job."""
    show_job(_with_api(state, owner, lambda api: api.get(job)), as_json)


@app.command()
def create(
    title: Annotated[str, typer.Option(help="What it is called.")],
    prompt: Annotated[str, typer.Option(help="What the agent is told.")],
    type: Type = None,
    at: At = None,
    weekday: Weekday = None,
    zone: Zone = None,
    tool: Tool = None,
    profile: Profile = None,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Create a job."""
    with failures():
        body = _members(title, type, at, weekday, zone, profile)
    body["config"] = {"prompt": prompt, "tools": tool or []}
    show_job(_with_api(state, owner, lambda api: api.create(body)), as_json)


@app.command("set")
def change(
    job: JobName,
    title: Title = None,
    prompt: Prompt = None,
    type: Type = None,
    at: At = None,
    weekday: Weekday = None,
    zone: Zone = None,
    tool: Tool = None,
    profile: Profile = None,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Change what is given; the rest stays."""
    with failures():
        body = _members(title, type, at, weekday, zone, profile)
    config = _given(prompt=prompt, tools=tool)
    body |= {"config": config} if config else {}
    if not body:
        raise typer.BadParameter("say what is to be different")
    show_job(_with_api(state, owner, lambda api: api.change(job, body)), as_json)


@app.command()
def pause(
    job: JobName,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Run nothing until it is resumed."""
    show_job(_with_api(state, owner, lambda api: api.act(job, "pause")), as_json)


@app.command()
def resume(
    job: JobName,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Go on from now."""
    show_job(_with_api(state, owner, lambda api: api.act(job, "resume")), as_json)


@app.command()
def delete(
    job: JobName,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Delete a job; what it did stays in the audit."""
    show_job(_with_api(state, owner, lambda api: api.delete(job)), as_json)


@app.command()
def trigger(
    job: JobName,
    again: Annotated[bool, typer.Option("--again", help="Even if the slot has run.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Until the slot has ended.")] = False,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Run a job now. With --wait the exit code is 1 if the slot fails."""
    if wait:
        slot = _with_api(state, owner, lambda api: api.run_now(job, again=again))
        show_slots([slot], as_json)
        raise typer.Exit(FAILED if slot["status"] == "failed" else 0)
    asked = _with_api(state, owner, lambda api: api.act(job, "trigger", {"again": again}))
    show_asked(asked, f"Slot {asked['slot']}: {asked['state']}", as_json)


@app.command()
def backfill(
    job: JobName,
    start: Annotated[str, typer.Argument(help="Date in the job's zone, or instant.")],
    end: Annotated[str, typer.Argument(help="The same; included.")],
    again: Annotated[bool, typer.Option("--again", help="Slots that have run too.")] = False,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Run the slots of a past stretch, one after another."""
    body = {"start": start, "end": end, "again": again}
    asked = _with_api(state, owner, lambda api: api.act(job, "backfill", body))
    said = "; ".join(f"{name}: {', '.join(slots) or 'none'}" for name, slots in asked.items())
    show_asked(asked, said, as_json)


@app.command()
def runs(
    job: JobName,
    limit: Annotated[int, typer.Option(min=1)] = 20,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Show what became of its slots, latest first."""
    show_slots(_with_api(state, owner, lambda api: api.runs(job, limit)), as_json)


def _with_api(state: Path, owner: str | None, use: Callable[[Automation], Awaitable[T]]) -> T:
    async def work() -> T:
        url, key = where.api(state)
        async with Automation(url, key, owner) as api:
            return await use(api)

    with failures(), _telling():
        return asyncio.run(work())


@contextmanager
def _telling() -> Generator[None]:
    """Refusals that a script may want to tell apart have exit codes of their own."""
    try:
        yield
    except ApiError as error:
        code = _CODES.get(HTTPStatus(error.status))
        if code is None:
            raise
        aside.print(str(error), style="red", markup=False)
        raise typer.Exit(code) from error


def _members(
    title: str | None,
    type: ScheduleType | None,
    at: str | None,
    weekday: int | None,
    zone: str | None,
    profile: str | None,
) -> dict[str, Any]:
    """Raises InvalidInput for a file that holds no profile."""
    return _given(
        title=title,
        schedule_type=type,
        run_at=at,
        weekday=weekday,
        timezone=zone,
        execution_profile=_profile(profile),
    )


def _profile(given: str | None) -> Any:
    if given is None or not given.endswith(".json"):
        return given
    try:
        return json.loads(Path(given).read_text("utf-8"))
    except ValueError as error:
        raise InvalidInput("profile", f"{given} is not JSON: {error}") from error


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
