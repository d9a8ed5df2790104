"""`varve`: the command line. One file per command; this one only brings them together."""

import asyncio
from pathlib import Path

import typer
from dotenv import load_dotenv

from adapters import logs
from cli import chat, doctor, health, inbox, job_sweeps, keys, memory, up, where
from cli.bench import command as bench
from cli.output import console, failures
from cli.stack import migrate as migrations

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
app.add_typer(up.app)
app.add_typer(doctor.app)
app.add_typer(health.app)
app.add_typer(chat.app)
app.add_typer(bench.app, name="bench")
app.add_typer(job_sweeps.app, name="jobs")
app.add_typer(memory.app, name="memory")
app.add_typer(inbox.app, name="inbox")
app.add_typer(keys.user_app, name="user")
app.add_typer(keys.key_app, name="key")


def run() -> None:
    """What the shell calls: what stores and libraries have to say goes to standard error."""
    logs.configure("warning", "text")
    app()


@app.callback()
def main() -> None:
    """A self-hosted runtime for agents that must not lose anything."""
    load_dotenv(Path(".env"))  # what the environment says already wins


@app.command()
def migrate(state: where.StateOption = where.DEFAULT_STATE) -> None:
    """Bring the database up to date; several at once are safe."""
    with failures():
        console.print(asyncio.run(migrations.migrate(where.database_url(state))) or "Up to date.")
