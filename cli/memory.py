"""`varve memory …`: what is remembered, why, and how to correct it or have it gone."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from cli import where
from cli.client import AgentClient
from cli.output import console, failures, show_json, show_rows

app = typer.Typer(no_args_is_help=True, help="What is remembered about you.")

AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
FactId = Annotated[UUID, typer.Argument(help="Id of the fact, as lists show it.")]
Limit = Annotated[int, typer.Option(min=1, max=200, help="How many at most.")]

_FACT_COLUMNS = ("id", "key", "value", "scope", "statedAt")
_CANDIDATE_COLUMNS = ("key", "value", "confidence", "reason", "createdAt")


@app.command("list")
def list_facts(
    scope: Annotated[str | None, typer.Option(help="global, or agent:ID.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """List facts, newest first."""
    answer = _ask(state, "GET", "/facts", _given(scope=scope, limit=limit))
    _show(answer, _FACT_COLUMNS, as_json)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for, in your own words.")],
    limit: Limit = 10,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Search facts by words and by meaning, best first."""
    answer = _ask(state, "GET", "/facts", _given(query=query, limit=limit))
    _show(answer, _FACT_COLUMNS, as_json)
    if answer["degraded"] and not as_json:
        console.print("Searched by words only: the embeddings are away just now.")


@app.command()
def show(
    fact: FactId, as_json: AsJson = False, state: where.StateOption = where.DEFAULT_STATE
) -> None:
    """Show a fact: its versions, and the messages that say so."""
    answer = _ask(state, "GET", f"/facts/{fact}")
    if as_json:
        show_json(answer)
        return
    show_rows(_FACT_COLUMNS, _cells(answer["versions"], _FACT_COLUMNS))
    for said in answer["evidence"]:
        where_said = f"{said['saidAt']} in {said['threadId']} ({said['role']}):"
        console.print(f"\n{where_said}\n{said['text']}", markup=False)
    run = answer["sourceRun"]
    written = f"run {run['runId']} in {run['threadId']}" if run else "a person"
    console.print(f"\nWritten by {written}.", markup=False)


@app.command()
def write(
    key: Annotated[str, typer.Argument(help="Short name, e.g. favourite_drink.")],
    value: Annotated[str, typer.Argument(help="One sentence that stands alone.")],
    tag: Annotated[list[str] | None, typer.Option(help="May be given several times.")] = None,
    scope: Annotated[str, typer.Option(help="global, or agent:ID.")] = "global",
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Say or correct something; a known key gets a new version."""
    body = {"key": key, "value": value, "tags": tag or [], "scope": scope}
    answer = _ask(state, "POST", "/facts", body=body)
    _done(answer, f"{answer['outcome']}: {answer['fact']['id']}", as_json)


@app.command()
def forget(
    fact: FactId,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Forget a fact: it is found no more; its history stays until it is purged."""
    _ask(state, "DELETE", f"/facts/{fact}", _given(reason=reason or None))
    _done({"forgotten": str(fact)}, "Forgotten.", as_json)


@app.command()
def purge(
    fact: FactId,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Have a fact gone for good, with every version of its key."""
    if not yes:
        typer.confirm("Every version is deleted, which can't be undone. Go on?", abort=True)
    answer = _ask(state, "POST", f"/facts/{fact}/purge")
    gone = f"Gone: {answer['versions']} versions, {answer['candidates']} candidates."
    _done(answer, gone, as_json)


@app.command()
def candidates(
    limit: Limit = 50, as_json: AsJson = False, state: where.StateOption = where.DEFAULT_STATE
) -> None:
    """List what was proposed and not believed, newest first."""
    answer = _ask(state, "GET", "/candidates", _given(limit=limit))
    _show(answer, _CANDIDATE_COLUMNS, as_json)


def _ask(
    state: Path,
    method: str,
    path: str,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        url, key = where.api(state)
        async with AgentClient(url, key) as client:
            return await client.ask(method, f"/memory{path}", query=query, body=body)

    with failures():
        return asyncio.run(ask())


def _given(**options: str | int | None) -> dict[str, str]:
    return {name: str(value) for name, value in options.items() if value is not None}


def _show(answer: dict[str, Any], columns: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        show_json(answer["items"])
    else:
        show_rows(columns, _cells(answer["items"], columns))


def _cells(items: list[dict[str, Any]], columns: tuple[str, ...]) -> list[list[object]]:
    return [[item[column] for column in columns] for item in items]


def _done(answer: dict[str, Any], words: str, as_json: bool) -> None:
    if as_json:
        show_json(answer)
    else:
        console.print(words, markup=False)
