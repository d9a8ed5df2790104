"""How commands speak: results on standard output, all else on standard error, failures in words."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from adapters.settings import SettingsError
from cli.client import ApiError, Unreachable
from cli.stack.errors import StackError
from domain.errors import InvalidInput, NotFound

console = Console(highlight=False)
"""For results."""

aside = Console(stderr=True, highlight=False)
"""For progress and complaints, so that results can be piped."""

FAILED = 1
INTERRUPTED = 130


@contextmanager
def failures() -> Generator[None]:
    """Turn what a command may run into into words and exit code 1."""
    try:
        yield
    except (
        *(StackError, SettingsError, ApiError, Unreachable, InvalidInput, NotFound),
        OSError,  # asyncpg and redis let it through when nobody listens
    ) as error:
        aside.print(str(error) or type(error).__name__, style="red", markup=False)
        raise typer.Exit(FAILED) from error


def show_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:  # an id that is cut short is none
        table.add_column(name, no_wrap=name == "id")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    console.print(table)
