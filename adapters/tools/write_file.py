"""write_file: create or replace a text file in the session's workspace."""

import asyncio
import json

from pydantic import Field

from adapters.tools.registry import Arguments, Tool, ToolContext, declare
from adapters.tools.workspace import MAX_FILE_BYTES, Workspace
from domain.tools import ToolKind


class WriteFile(Arguments):
    path: str = Field(
        min_length=1,
        max_length=1_000,
        description="Relative, like notes/plan.md; missing folders are made",
    )
    content: str = Field(description="The whole new content")


def write_file() -> Tool[WriteFile]:
    async def run(arguments: WriteFile, context: ToolContext) -> str:
        workspace = Workspace(context.workspace)
        size = await asyncio.to_thread(workspace.write, arguments.path, arguments.content)
        return json.dumps(
            {"status": "written", "path": arguments.path, "bytes": size}, ensure_ascii=False
        )

    async def overwrites(arguments: WriteFile, context: ToolContext) -> str | None:
        there = await asyncio.to_thread(Workspace(context.workspace).has, arguments.path)
        return f"{arguments.path} is there already and would be overwritten." if there else None

    return declare(
        "write_file",
        "Create or replace a text file in this session's workspace, "
        f"up to {MAX_FILE_BYTES:,} bytes. An existing file is overwritten whole.",
        WriteFile,
        run,
        kind=ToolKind.WRITE,
        parallel_safe=False,
        risky=overwrites,
    )
