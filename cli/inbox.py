"""`varve inbox …`: what runs ask of people, and the answers."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from cli import where
from cli.client import AgentClient
from cli.output import console, failures, show_json, show_rows

app = typer.Typer(no_args_is_help=True, help="Questions of runs to people.")

AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
Id = Annotated[UUID, typer.Argument(help="Id of the checkpoint, as lists show it.")]
Owner = Annotated[UUID | None, typer.Option(help="Operators: act for this user.")]

_COLUMNS = ("id", "title", "state", "deadline")


@app.command("list")
def list_checkpoints(
    which: Annotated[
        str, typer.Option(help="pending, open, queued, answered, expired, …, all.")
    ] = "pending",
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """List what is asked, newest first."""
    answer = _ask(state, "GET", "", owner, {"state": which})
    if as_json:
        show_json(answer["items"])
        return
    show_rows(_COLUMNS, [[item[name] for name in _COLUMNS] for item in answer["items"]])


@app.command()
def show(
    checkpoint: Id,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Show a question whole, with what may be answered."""
    answer = _ask(state, "GET", f"/{checkpoint}", owner)
    if as_json:
        show_json(answer)
        return
    console.print(f"{answer['title']} ({answer['state']})\n\n{answer['body']}\n", markup=False)
    if answer["arguments"] is not None:
        console.print(json.dumps(answer["arguments"], ensure_ascii=False, indent=2), markup=False)
    show_rows(("action", "label"), [[a["id"], a["label"]] for a in answer["actions"]])


@app.command()
def answer(
    checkpoint: Id,
    action: Annotated[str, typer.Argument(help="One of those that `show` lists.")],
    text: Annotated[
        str | None, typer.Argument(help="What is said with it; for edit: arguments as JSON.")
    ] = None,
    owner: Owner = None,
    as_json: AsJson = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Answer a question. The first answer counts."""
    with failures():
        given: Any = text
        if action == "edit":
            try:
                given = json.loads(text or "")
            except ValueError as error:
                raise typer.BadParameter(f"the arguments are no JSON: {error}") from error
    body = {"action": action} if given is None else {"action": action, "input": given}
    done = _ask(state, "POST", f"/{checkpoint}", owner, body=body)
    if as_json:
        show_json(done)
        return
    console.print(f"{done['title']}: {done['action']}", markup=False)


def _ask(
    state: Path,
    method: str,
    path: str,
    owner: UUID | None,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    async def asked() -> dict[str, Any]:
        url, key = where.api(state)
        given = {**(query or {}), **({"owner_id": str(owner)} if owner else {})}
        async with AgentClient(url, key) as client:
            return await client.ask(method, f"/checkpoints{path}", query=given, body=body)

    with failures():
        return asyncio.run(asked())
