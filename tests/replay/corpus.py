"""Histories of real runs. Workflow tests add to them; nothing ever rewrites one."""

import os
import socket
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
        here = {socket.gethostname(): "host", str(FOLDER.parents[2]): "/varve"}
        for found, shown in here.items():
            history = history.replace(found, shown)
        path.write_text(history)
