"""read_file: a whole text file of the session's workspace, if it is small."""

import asyncio

from pydantic import Field

from adapters.tools.registry import Arguments, Tool, ToolContext, ToolError, declare
from adapters.tools.workspace import Workspace
from domain.tools import ToolKind

MOST_BYTES = 50_000


class ReadFile(Arguments):
    path: str = Field(min_length=1, max_length=1_000, description="Relative, like notes/plan.md")


def read_file() -> Tool[ReadFile]:
    async def run(arguments: ReadFile, context: ToolContext) -> str:
        return await asyncio.to_thread(_read, Workspace(context.workspace), arguments.path)

    return declare(
        "read_file",
        f"Read a text file of this session's workspace, up to {MOST_BYTES:,} bytes. "
        "Larger files: read_file_chunk.",
        ReadFile,
        run,
        kind=ToolKind.READ,
        read_on="use read_file_chunk with a start_line",
    )


def _read(workspace: Workspace, path: str) -> str:
    size = workspace.size(path)
    if size > MOST_BYTES:
        raise ToolError(
            f"{path} has {size:,} bytes, read_file takes at most {MOST_BYTES:,}: "
            "use read_file_chunk (at most 100 lines a call)"
        )
    return workspace.read(path)
