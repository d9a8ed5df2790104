"""The file tools: inside the session's folder they work, outside it they reach nothing."""

import os
from pathlib import Path

import pytest

from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool
from adapters.tools import workspace
from adapters.tools.catalog import built_in
from domain.tools import ToolResult, ToolStatus
from tests.adapters.tool_calls import Caller, caller

pytestmark = pytest.mark.anyio


@pytest.fixture
async def ada(pool: Pool, tmp_path: Path) -> Caller:
    (tmp_path / "secret.txt").write_text("not for models")
    return await caller(pool, built_in(FactStore(pool)), tmp_path / "sessions" / "ada")


def refused(result: ToolResult, why: str) -> None:
    assert result.status is ToolStatus.ERROR, result.content
    assert why in result.content


async def write(ada: Caller, path: str, content: str) -> ToolResult:
    return await ada.call("write_file", {"path": path, "content": content})


async def read(ada: Caller, path: str) -> ToolResult:
    return await ada.call("read_file", {"path": path})


async def test_a_file_is_read_as_it_was_written_and_replaced_whole(ada: Caller) -> None:
    for content in ("a long first version", "短\r\n"):
        assert (await write(ada, "notes/plan.md", content)).status is ToolStatus.OK
        assert (await read(ada, "notes/plan.md")).content == content


async def test_files_are_listed_with_their_sizes(ada: Caller) -> None:
    assert (await ada.call("list_files", {})).content == "[no files]"
    await write(ada, "b.txt", "12345")
    await write(ada, "a/deep/c.txt", "")
    listed = (await ada.call("list_files", {})).content.splitlines()
    assert listed == ["a/", "a/deep/", "a/deep/c.txt  0 bytes", "b.txt  5 bytes"]
    below = (await ada.call("list_files", {"path": "a"})).content.splitlines()
    assert below == ["a/deep/", "a/deep/c.txt  0 bytes"]


OUTSIDE = [
    "../secret.txt",
    "a/../../secret.txt",
    "/etc/passwd",
    "~/secret.txt",
    "\\secret.txt",
    "..",
    "./..",
    "a\x00b",
    "notes.md\nforged.md  9 bytes",
    "a/\u202eb",
]


@pytest.mark.parametrize("path", OUTSIDE)
async def test_no_path_leads_outside(ada: Caller, tmp_path: Path, path: str) -> None:
    await write(ada, "a/file.txt", "mine")
    for name, more in (
        ("read_file", {}),
        ("read_file_chunk", {}),
        ("write_file", {"content": "x"}),
        ("list_files", {}),
    ):
        refused(await ada.call(name, {"path": path, **more}), "path: ")
    assert (tmp_path / "secret.txt").read_text() == "not for models"


async def test_no_link_leads_outside(ada: Caller, tmp_path: Path) -> None:
    await write(ada, "file.txt", "mine")
    (ada.workspace / "link.txt").symlink_to(tmp_path / "secret.txt")
    (ada.workspace / "up").symlink_to(tmp_path)
    (ada.workspace / "round").symlink_to(ada.workspace)
    refused(await read(ada, "link.txt"), "links are not followed")
    refused(await read(ada, "up/secret.txt"), "not followed")
    refused(await write(ada, "up/secret.txt", "x"), "not followed")
    refused(await ada.call("list_files", {"path": "up"}), "not followed")
    assert (await ada.call("list_files", {})).content == "file.txt  4 bytes"


async def test_writing_over_a_link_replaces_the_link_not_its_target(
    ada: Caller, tmp_path: Path
) -> None:
    await write(ada, "file.txt", "mine")
    (ada.workspace / "link.txt").symlink_to(tmp_path / "secret.txt")
    assert (await write(ada, "link.txt", "new")).status is ToolStatus.OK
    assert (tmp_path / "secret.txt").read_text() == "not for models"
    assert not (ada.workspace / "link.txt").is_symlink()


async def test_what_is_no_file_is_no_file(ada: Caller) -> None:
    await write(ada, "folder/file.txt", "x")
    os.mkfifo(ada.workspace / "pipe")
    refused(await read(ada, "nothing.txt"), "no such file")
    refused(await read(ada, "folder"), "not a file")
    refused(await read(ada, "pipe"), "not a file")
    refused(await write(ada, "folder", "x"), "is a folder")
    refused(await write(ada, "folder/file.txt/below.txt", "x"), "not a folder")
    refused(await write(ada, "x" * 300, "x"), "too long")
    refused(await write(ada, "/".join("abcdefghijklmnop"), "x"), "levels")


async def test_a_large_file_is_refused_in_favour_of_chunks(ada: Caller) -> None:
    await write(ada, "big.txt", "".join(f"line {i}\n" for i in range(1, 10_001)))
    refused(await read(ada, "big.txt"), "read_file_chunk")
    first = (await ada.call("read_file_chunk", {"path": "big.txt"})).content
    assert first.startswith("[lines 1 to 100; the file goes on at line 101]\nline 1\n")
    assert first.endswith("line 100\n")
    last = await ada.call("read_file_chunk", {"path": "big.txt", "start_line": 9_999})
    assert last.content == "[lines 9999 to 10000; end of file]\nline 9999\nline 10000\n"
    beyond = await ada.call("read_file_chunk", {"path": "big.txt", "start_line": 10_002})
    refused(beyond, "fewer than 10002 lines")


async def test_a_chunk_is_at_most_a_hundred_lines(ada: Caller) -> None:
    refused(await ada.call("read_file_chunk", {"path": "f", "lines": 101}), "lines")


async def test_a_line_without_end_is_read_in_pieces(ada: Caller) -> None:
    await write(ada, "long.txt", "好" * 20_000)
    chunk = await ada.call("read_file_chunk", {"path": "long.txt", "lines": 1})
    assert (
        chunk.content == "[lines 1 to 1; the file goes on at line 2]\n" + "好" * workspace.MAX_LINE
    )


async def test_what_is_no_text_is_said_to_be_none(ada: Caller) -> None:
    await write(ada, "file.txt", "x")
    (ada.workspace / "image.png").write_bytes(b"\x89PNG\xff\xfe")
    refused(await read(ada, "image.png"), "not UTF-8 text")


async def test_a_file_is_bounded(ada: Caller) -> None:
    refused(await write(ada, "big.txt", "x" * (workspace.MAX_FILE_BYTES + 1)), "at most 1,000,000")


async def test_a_workspace_is_bounded(ada: Caller) -> None:
    await write(ada, "file.txt", "x")
    with open(ada.workspace / "huge.bin", "wb") as file:
        file.truncate(workspace.MAX_WORKSPACE_BYTES)
    refused(await write(ada, "one-more.txt", "x"), "full")


async def test_a_write_leaves_nothing_half_done_behind(ada: Caller) -> None:
    await write(ada, "file.txt", "x")
    await write(ada, "folder/other.txt", "y")
    refused(await write(ada, "folder", "z"), "is a folder")
    names = {path.name for path in ada.workspace.rglob("*")}
    assert names == {"file.txt", "folder", "other.txt"}


async def append(ada: Caller, path: str, text: str) -> ToolResult:
    return await ada.call("append_file", {"path": path, "text": text})


async def test_what_is_appended_begins_a_line_of_its_own(ada: Caller) -> None:
    for text in ("one", "two\n", "三"):
        assert (await append(ada, "logs/a.txt", text)).status is ToolStatus.OK
    assert (await read(ada, "logs/a.txt")).content == "one\ntwo\n三\n"
    await write(ada, "logs/a.txt", "no line end")
    await append(ada, "logs/a.txt", "next")
    assert (await read(ada, "logs/a.txt")).content == "no line end\nnext\n"


async def test_a_file_grows_to_its_limit_and_stays_whole(ada: Caller) -> None:
    await write(ada, "big.txt", "x" * (workspace.MAX_FILE_BYTES - 4))
    assert (await append(ada, "big.txt", "ab")).status is ToolStatus.OK
    refused(await append(ada, "big.txt", "c"), "at most 1,000,000 are allowed")


async def test_nothing_outside_is_appended_to(ada: Caller, tmp_path: Path) -> None:
    for path in OUTSIDE:
        assert (await append(ada, path, "x")).status is ToolStatus.ERROR
    await write(ada, "a.txt", "a")
    (tmp_path / "sessions" / "ada" / "link").symlink_to(tmp_path / "secret.txt")
    refused(await append(ada, "link", "x"), "is a link")
    os.mkfifo(tmp_path / "sessions" / "ada" / "pipe")
    refused(await append(ada, "pipe", "x"), "is not a file")
    assert (tmp_path / "secret.txt").read_text() == "not for models"
