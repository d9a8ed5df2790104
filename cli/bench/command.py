"""`varve bench`: what a run costs on this machine, beside what it is compared with."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from cli.output import aside, console, failures, show_json

app = typer.Typer(no_args_is_help=True, help="Measure on this machine.")
_ROUNDS = 5


@app.callback()
def bench() -> None:
    """Figures, never verdicts; read the ratios, since absolute figures drift with the machine."""


@app.command()
def run(
    runs: Annotated[
        int,
        typer.Option(min=_ROUNDS, help="Runs of each kind, one at a time; twice as many at 20."),
    ] = 100,
    exchanges: Annotated[
        int, typer.Option(min=0, help="Earlier user messages in each session's window.")
    ] = 19,
    quick: Annotated[bool, typer.Option("--quick", help="A few runs: does it work?")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Run by run, ours in three placements beside the empty workflow and the bare SDK loop.

    Starts servers and workers of its own in a temporary folder, on free ports.
    """
    # Here, because the SDK that is measured takes longer to import than any other command lasts.
    from cli.bench import report
    from cli.bench.measure import QUICK, Extent, measured

    each = runs // _ROUNDS
    extent = QUICK if quick else Extent(_ROUNDS, alone=each, together=2 * each)
    extent = replace(extent, exchanges=exchanges)
    with failures():
        findings = uvloop.run(measured(extent, _say))
    if as_json:
        show_json(asdict(findings))
    else:
        report.show(findings, console)


@app.command()
def window(
    conversations: Annotated[
        Path | None,
        typer.Option(help="Folder of conversations (*.json) to count on as well.", exists=True),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Input tokens of a run: the last 20 user messages, beside everything since yesterday.

    Counts with the built-in tokenizer on 27 made-up conversations. No server, no model.
    """
    from cli.bench import report
    from cli.bench.conversations import made_up, read
    from cli.bench.windows import compare

    with failures():
        spent = compare([*made_up(), *(read(conversations) if conversations else ())])
    if as_json:
        show_json([asdict(each) for each in spent])
    else:
        console.print(report.spent(spent))


@app.command()
def crowd(
    jobs: Annotated[int, typer.Option(min=1, help="Users whose job is due.")] = 2_000,
    jitter: Annotated[
        float, typer.Option(min=0, help="Seconds over which the engine spreads them.")
    ] = 0.0,
    within: Annotated[float, typer.Option(min=60, help="Seconds before it gives up.")] = 1_800.0,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Many users' daily memory, due in the same minute: how long the queue gets, and who was lost.

    Starts servers and a worker of its own. Exit code 1 unless all are done and none twice.
    """
    from cli.bench import report
    from cli.bench.crowd import gathered

    with failures():
        found = uvloop.run(gathered(jobs, jitter, within, _say))
    if as_json:
        show_json(asdict(found))
    else:
        report.crowd(found, console)
    raise typer.Exit(0 if found.whole else 1)


@app.command()
def sweep(
    jobs: Annotated[
        list[int] | None, typer.Option(min=1, help="How many; may be given several times.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Sweeps over many jobs and their Schedules: seconds and memory.  [default: 1,000 and 10,000]

    Starts servers of its own. Memory is that of a sweep more, which is traced and not timed.
    """
    from cli.bench import report
    from cli.bench.sweep import swept

    with failures():
        found = uvloop.run(swept(tuple(jobs or (1_000, 10_000)), _say))
    if as_json:
        show_json([asdict(each) for each in found])
    else:
        console.print(report.sweeps(found))


@app.command()
def chaos(
    runs: Annotated[int, typer.Option(min=1, help="How many.")] = 500,
    lanes: Annotated[int, typer.Option(min=1, max=100, help="Clients at a time.")] = 12,
    seed: Annotated[int, typer.Option(help="The same runs and faults are drawn again.")] = 1,
    within: Annotated[float, typer.Option(min=60, help="Seconds before it gives up.")] = 1_800.0,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Runs under random faults: what was lost, what was there twice, what was stuck.

    Starts a stack of its own and kills, freezes and fills its parts. Exit code 1 unless all that
    must hold does.
    """
    from cli.bench import report
    from cli.bench.chaos.trial import Trial, tried

    with failures():
        found = uvloop.run(tried(Trial(runs, lanes, seed, within), _say))
    if as_json:
        show_json(asdict(found))
    else:
        report.chaos(found, console)
    raise typer.Exit(0 if found.whole else 1)


def _say(text: str) -> None:
    aside.print(text, style="dim", markup=False)
