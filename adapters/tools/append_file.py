"""append_file: add lines to the end of a text file in the session's workspace."""

import asyncio
import json

from pydantic import Field

from adapters.tools.registry import Arguments, Tool, ToolContext, declare
from adapters.tools.workspace import Workspace
from domain.tools import ToolKind


class AppendFile(Arguments):
    path: str = Field(
        min_length=1,
        max_length=1_000,
        description="Relative, like notes/log.md; file and folders are made if missing",
    )
    text: str = Field(
        min_length=1, max_length=100_000, description="What is added; begins a line of its own"
    )


def append_file() -> Tool[AppendFile]:
    async def run(arguments: AppendFile, context: ToolContext) -> str:
        workspace = Workspace(context.workspace)
        size = await asyncio.to_thread(workspace.append, arguments.path, arguments.text)
        return json.dumps(
            {"status": "appended", "path": arguments.path, "bytes": size}, ensure_ascii=False
        )

    return declare(
        "append_file",
        "Add text to the end of a text file in this session's workspace. What is there stays.",
        AppendFile,
        run,
        kind=ToolKind.WRITE,
        idempotent=False,
        parallel_safe=False,
    )
