"""Histories of real runs. Workflow tests add to them; nothing ever rewrites one."""

import os
import socket
import sys
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHandle

FOLDER = Path(__file__).parent / "histories"


async def keep(name: str, run: WorkflowHandle[Any, Any]) -> None:
    """With RECORD_HISTORIES=1, save this run's history unless the corpus already has it."""
    path = FOLDER / f"{name}.json"
    if os.environ.get("RECORD_HISTORIES") and not path.exists():
        path.parent.mkdir(exist_ok=True)
        history = (await run.fetch_history()).to_json()
        path.write_text(_anywhere(history))


def _anywhere(history: str) -> str:
    """Without the names of the machine it ran on: its own, and those of its folders."""
    for here, kept in (
        (socket.gethostname(), "host"),
        (str(Path(__file__).parents[2]), "/varve"),
        (sys.base_prefix, "/usr"),
    ):
        history = history.replace(here, kept)
    return history
