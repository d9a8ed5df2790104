"""read_file_chunk: some lines of a file of the session's workspace, however large it is."""

import asyncio

from pydantic import Field

from adapters.tools.registry import Arguments, Tool, ToolContext, declare
from adapters.tools.workspace import MAX_LINE, Lines, Workspace
from domain.tools import ToolKind

MOST_LINES = 100


class ReadFileChunk(Arguments):
    path: str = Field(min_length=1, max_length=1_000, description="Relative, like notes/plan.md")
    start_line: int = Field(default=1, ge=1, description="1 is the first line")
    lines: int = Field(default=MOST_LINES, ge=1, le=MOST_LINES)


def read_file_chunk() -> Tool[ReadFileChunk]:
    async def run(arguments: ReadFileChunk, context: ToolContext) -> str:
        chunk = await asyncio.to_thread(
            Workspace(context.workspace).read_lines,
            arguments.path,
            arguments.start_line,
            arguments.lines,
        )
        return _shown(chunk)

    return declare(
        "read_file_chunk",
        f"Read up to {MOST_LINES} lines of a text file of this session's workspace. "
        f"A line over {MAX_LINE:,} characters counts as several.",
        ReadFileChunk,
        run,
        kind=ToolKind.READ,
        read_on="ask for fewer lines",
    )


def _shown(chunk: Lines) -> str:
    if not chunk.count:
        return "[the file is empty]"
    last = chunk.start + chunk.count - 1
    after = f"the file goes on at line {last + 1}" if chunk.more else "end of file"
    return f"[lines {chunk.start} to {last}; {after}]\n{chunk.text}"
