"""Findings for a person: tables, each figure beside its ratio to what ran in the same minute."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from cli.bench.chaos.trial import Outcome
from cli.bench.crowd import Crowd
from cli.bench.figures import Figure, Findings
from cli.bench.sweep import Sweep
from cli.bench.windows import Spent


def show(findings: Findings, console: Console) -> None:
    versions = ", ".join(f"{name} {number}" for name, number in findings.versions.items())
    console.print(
        f"{findings.taken_at} · {findings.machine}\n{versions}\n"
        f"{findings.exchanges} exchanges before each run\n",
        markup=False,
    )
    for place in range(len(findings.figures[0].loads)):
        console.print(_loads(findings, place))
    console.print(_histories(findings))
    console.print(_firsts(findings))


def _loads(findings: Findings, place: int) -> Table:
    """At one concurrency. The first subject is the floor, the second the bare loop."""
    floor, bare = (figure.loads[place] for figure in findings.figures[:2])
    table = Table(
        *("", "runs", "p50 ms", "p95 ms", "× empty", "runs/s", "CPU ms", "× bare loop"),
        "servers' CPU ms",
        title=f"{floor.concurrency} at a time",
        box=None,
        title_justify="left",
    )
    for figure in findings.figures:
        load = figure.loads[place]
        table.add_row(
            figure.name,
            str(load.runs),
            *(f"{load.p50_ms:.1f}", f"{load.p95_ms:.1f}", f"{load.p50_ms / floor.p50_ms:.2f}"),
            *(f"{load.runs_per_s:.1f}", f"{load.cpu_ms:.1f}"),
            *(f"{load.cpu_ms / bare.cpu_ms:.2f}", f"{load.servers_cpu_ms:.1f}"),
        )
    return table


def _histories(findings: Findings) -> Table:
    columns = ("", "events", "bytes", "events, 10 × the text", "bytes, 10 × the text")
    table = Table(*columns, title="History of one run", box=None, title_justify="left")
    for figure in findings.figures:
        if figure.history is not None:
            table.add_row(figure.name, *_counts(figure))
    return table


def _counts(figure: Figure) -> list[str]:
    cells: list[str] = []
    for history in (figure.history, figure.history_long):
        cells += [str(history.events), str(history.size)] if history else ["", ""]
    return cells


def _firsts(findings: Findings) -> Table:
    columns = ("", "at a time", "calls", "p50 ms", "p95 ms", "× direct")
    table = Table(*columns, title="First token, model delay 300 ms", box=None, title_justify="left")
    direct = {f.concurrency: f.p50_ms for f in findings.firsts if f.name == "direct call"}
    for first in findings.firsts:
        table.add_row(
            first.name,
            *(str(first.concurrency), str(first.calls)),
            *(f"{first.p50_ms:.1f}", f"{first.p95_ms:.1f}"),
            f"{first.p50_ms / direct[first.concurrency]:.2f}",
        )
    return table


def spent(found: Sequence[Spent]) -> Table:
    """Input tokens per run under each policy of history."""
    columns = ("conversations", "policy", "runs", "mean", "p95", "most", "nothing earlier seen")
    table = Table(*columns, title="Input tokens per run", box=None, title_justify="left")
    for each in found:
        name = f"{each.kind} ({each.conversations})"
        sizes = (f"{each.mean:,.0f}", f"{each.p95:,.0f}", f"{each.most:,}")
        table.add_row(name, each.policy, f"{each.runs:,}", *sizes, f"{each.alone:.1%}")
    return table


_POINTS = 24  # of a plot


def crowd(found: Crowd, console: Console) -> None:
    """What became of them, and the queue over time as a Mermaid plot for the documents."""
    facts = f"{found.facts:,} of {found.facts_expected:,} facts, {found.doubled} double"
    console.print(
        f"{found.completed:,} of {found.jobs:,} jobs completed, {found.again} slots ran again, "
        f"{found.runs:,} runs, {facts}\n"
        f"half done {found.half_s:.0f} s after they were due, all after {found.drained_s:.0f} s",
        markup=False,
    )
    step = max(1, -(-len(found.samples) // _POINTS))
    shown = found.samples[::step]
    lines = {
        "waiting to begin": [each.waiting for each in shown],
        "running": [each.running for each in shown],
    }
    plot = _plot([round(each.at) for each in shown], lines)
    console.print("\n".join(plot), markup=False, soft_wrap=True)
    backlog = max(each.backlog for each in found.samples)
    console.print(f"longest backlog of tasks in the engine: {backlog:,}", markup=False)


def _plot(seconds: Sequence[int], lines: Mapping[str, Sequence[int]]) -> list[str]:
    drawn = [f"    line {list(values)}" for values in lines.values()]
    return [
        "```mermaid",
        "xychart-beta",
        f'    title "jobs: {", ".join(lines)}"',
        f'    x-axis "seconds after they were due" {list(seconds)}',
        '    y-axis "jobs"',
        *drawn,
        "```",
    ]


def sweeps(found: Sequence[Sweep]) -> Table:
    """Seconds and memory of each sweep over jobs and Schedules."""
    table = Table("jobs", "sweep", "seconds", "jobs/s", "mended", "peak MiB", box=None)
    for each in found:
        peak = "" if each.peak_mib is None else f"{each.peak_mib:.1f}"
        figures = (f"{each.seconds:.1f}", f"{each.jobs / each.seconds:,.0f}", str(each.mended))
        table.add_row(f"{each.jobs:,}", each.what, *figures, peak)
    return table


def chaos(found: Outcome, console: Console) -> None:
    """Faults, runs and what did not hold."""
    verdict = found.verdict
    counts = (
        ("faults", found.faults),
        ("injected at", found.points),
        ("runs", found.kinds),
        ("ended", verdict.statuses),
        ("failed with", verdict.failures),
    )
    table = Table("", "", "", title=f"Seed {found.trial.seed}", box=None, title_justify="left")
    for name, counter in counts:
        for place, (what, count) in enumerate(counter.most_common()):
            table.add_row("" if place else f"{counter.total()} {name}", what, str(count))
    console.print(table)
    console.print(f"\n{found.reconnects} readings begun again, {verdict.tool_effects} tool effects")
    for rule, where in verdict.breaches.items():
        console.print(f"BROKEN: {rule}: {len(where)} × {', '.join(where[:5])}", markup=False)
    if found.whole:
        console.print("0 lost, 0 twice, 0 stuck")
