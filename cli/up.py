"""`varve up`: everything on this machine, until Ctrl-C."""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Annotated, Any
from uuid import uuid4

import typer
from rich.table import Table

from cli import where
from cli.automation import Automation
from cli.chat import Answer, gather
from cli.client import AgentClient, ApiError, Unreachable
from cli.finding import Finding
from cli.output import FAILED, INTERRUPTED, aside, console, failures, show_json
from cli.remembered import facts_of
from cli.smoke import examine
from cli.stack.local import ANY, LocalStack, Ports, asked
from cli.stack.state import Endpoints, State
from domain.jobs import DAILY_MEMORY

app = typer.Typer()

WELCOME = "welcome"  # the session of the first turn
SMOKE_WITHIN_S = 180.0
GREETING = "My favourite rock is slate."
MEMORY_WITHIN_S = 60.0


@app.command()
def up(
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Start, check a chat turn and the memory job, stop.")
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(help="State folder.  [default: .varve; with --smoke a temporary one]"),
    ] = None,
    api_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the API; 0: any.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --smoke: as JSON.")] = False,
) -> None:
    """Start servers, worker and API; Ctrl-C stops them, the data stays."""
    if as_json and not smoke:
        raise typer.BadParameter("--json needs --smoke")
    with failures():
        settings = asked(os.environ)  # a mistake in it is told before anything starts
        if smoke:
            raise typer.Exit(_smoke(state, as_json=as_json))
        port = settings.api_port if api_port is None else api_port
        folder = State(state or where.DEFAULT_STATE)
        raise typer.Exit(asyncio.run(_run(folder, Ports(api=port), _serve)))


def _smoke(folder: Path | None, *, as_json: bool) -> int:
    """In a temporary folder unless one is given; kept when something is wrong."""
    chosen = folder or Path(mkdtemp(prefix="varve-smoke-"))
    findings: list[Finding] = []

    async def check(endpoints: Endpoints, _state: State, _stop: asyncio.Event) -> int:
        try:
            findings.extend(await asyncio.wait_for(examine(endpoints), SMOKE_WITHIN_S))
        except TimeoutError:
            findings.append(Finding("in time", False, f"not done after {SMOKE_WITHIN_S:.0f} s"))
        return 0 if all(finding.ok for finding in findings) else FAILED

    code = FAILED
    try:
        code = asyncio.run(_run(State(chosen), ANY, check))
    finally:
        if folder is None and code == 0:
            shutil.rmtree(chosen, ignore_errors=True)
        elif code != 0:
            aside.print(f"Data and logs are kept in {chosen}", markup=False)
    _report(findings, as_json=as_json)
    return code


Use = Callable[[Endpoints, State, asyncio.Event], Coroutine[Any, Any, int]]


async def _run(state: State, ports: Ports, use: Use) -> int:
    """Start the stack, use it, stop it. A signal at any time leads to the orderly stop."""
    stop = _signalled()
    began = monotonic()
    with state.lock():
        stack = LocalStack(state, os.environ, ports, _say)
        try:
            endpoints = await _unless(stop, stack.start())
            if endpoints is None:
                return INTERRUPTED
            _say(f"Ready after {monotonic() - began:.1f} s")
            code = await _unless(stop, use(endpoints, state, stop))
            return INTERRUPTED if code is None else code
        finally:
            _say("Stopping")
            await stack.stop()
            _say("Stopped")


async def _serve(endpoints: Endpoints, state: State, stop: asyncio.Event) -> int:
    if await _first_turn(endpoints):
        await _first_memory(endpoints)
    _show_addresses(endpoints, state)
    await stop.wait()
    return 0


async def _first_turn(endpoints: Endpoints) -> bool:
    """One chat turn in a new stack, so that there is something to see; whether there was one.

    A failure is only told.
    """
    answer = Answer(run_id=f"run-{uuid4().hex[:16]}")
    try:
        async with AgentClient(endpoints.api_url, endpoints.demo_api_key) as client:
            if await _exists(client, WELCOME):
                return False
            async for frame in client.run(WELCOME, GREETING, run_id=answer.run_id):
                gather(answer, frame)
    except (ApiError, Unreachable) as error:
        answer.error = str(error)
    _say(f"The first turn failed: {answer.error}" if answer.error else f"› {GREETING}")
    if not answer.error:
        _say(answer.text)
    return answer.error is None


async def _first_memory(endpoints: Endpoints) -> None:
    """The daily memory job, once by hand: what it made of the first turn, in one line."""
    try:
        async with (
            asyncio.timeout(MEMORY_WITHIN_S),
            AgentClient(endpoints.api_url, endpoints.demo_api_key) as client,
            Automation(endpoints.api_url, endpoints.demo_api_key) as jobs,
        ):
            slot = await jobs.run_now(DAILY_MEMORY)
            facts = [each["fact"] for each in await facts_of(client, slot)]
    except (ApiError, Unreachable, TimeoutError) as error:
        _say(f"The memory job was not run: {str(error) or 'it took too long'}")
        return
    first = (
        f"{facts[0]['key']}: {facts[0]['value']}" if facts else slot["error_message"] or "no fact"
    )
    _say(f"The daily memory job, {slot['slot']}: {slot['status']}; {first}")


async def _exists(client: AgentClient, thread_id: str) -> bool:
    try:
        await client.history(thread_id)
    except ApiError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return False
        raise
    return True


def _show_addresses(endpoints: Endpoints, state: State) -> None:
    rows = {
        "Console": endpoints.console_url,
        "API": endpoints.api_url,
        "API docs": f"{endpoints.api_url}/docs",
        "Temporal UI": endpoints.temporal_ui_url,
        "Temporal": endpoints.temporal_address,
        "API key (this machine only)": endpoints.demo_api_key,
        "Model": endpoints.model_base_url,
        "Logs": str(state.logs),
    }
    width = max(len(name) for name in rows)
    for name, address in rows.items():
        if address:  # lines, no table: a table cuts a key short where the terminal is narrow
            console.print(f"{name:<{width}}  {address}", markup=False, soft_wrap=True)
    console.print("Talk to it with `varve chat` (.venv/bin/varve). Ctrl-C stops everything.")


def _report(findings: list[Finding], *, as_json: bool) -> None:
    if as_json:
        show_json([{"check": f.name, "ok": f.ok, "detail": f.detail} for f in findings])
        return
    table = Table("", "check", "found", box=None, pad_edge=False, header_style="bold")
    for finding in findings:
        mark = "[green]ok[/green]" if finding.ok else "[red]wrong[/red]"
        table.add_row(mark, finding.name, finding.detail)
    console.print(table)


def _signalled() -> asyncio.Event:
    """Set by Ctrl-C, SIGTERM, or the end of the terminal."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, Any]) -> Any:
    """The result of `work`; None when `stop` is set first and `work` does not end by itself."""
    working = asyncio.create_task(work)
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            await asyncio.wait((working,), timeout=0.05)  # it may be waiting for the same event
        if working.done():
            return working.result()
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        return None
    finally:
        stopped.cancel()


def _say(text: str) -> None:
    aside.print(text, style="dim", markup=False)
