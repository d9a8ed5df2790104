"""list_files: what there is in the session's workspace."""

import asyncio
from collections.abc import Iterable

from pydantic import Field

from adapters.tools.registry import Arguments, Tool, ToolContext, declare
from adapters.tools.workspace import Entry, Workspace
from domain.tools import ToolKind

MOST_ENTRIES = 500


class ListFiles(Arguments):
    path: str = Field(default="", max_length=1_000, description="A folder; leave out for all")


def list_files() -> Tool[ListFiles]:
    async def run(arguments: ListFiles, context: ToolContext) -> str:
        workspace = Workspace(context.workspace)
        found, more = await asyncio.to_thread(workspace.list, arguments.path, MOST_ENTRIES)
        return _shown(found, more)

    return declare(
        "list_files",
        f"List files and folders of this session's workspace with their sizes, up to "
        f"{MOST_ENTRIES} entries.",
        ListFiles,
        run,
        kind=ToolKind.READ,
        read_on="list one folder",
    )


def _shown(found: Iterable[Entry], more: bool) -> str:
    lines = [e.path if e.path.endswith("/") else f"{e.path}  {e.size:,} bytes" for e in found]
    if more:
        lines.append(f"[only the first {MOST_ENTRIES} are shown: list one folder]")
    return "\n".join(lines) or "[no files]"
