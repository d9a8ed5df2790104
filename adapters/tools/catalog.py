"""The tools that exist, listed by hand. To add one: its file, and a line here."""

from collections.abc import Iterable
from typing import Any

from adapters.postgres.facts import FactStore
from adapters.recall import Recall
from adapters.tools.append_file import append_file
from adapters.tools.ask_clarification import ask_clarification
from adapters.tools.list_files import list_files
from adapters.tools.memory_forget import memory_forget
from adapters.tools.memory_search import memory_search
from adapters.tools.memory_write import memory_write
from adapters.tools.offer_alternatives import offer_alternatives
from adapters.tools.read_file import read_file
from adapters.tools.read_file_chunk import read_file_chunk
from adapters.tools.registry import Registry, Tool
from adapters.tools.request_input import request_input
from adapters.tools.write_file import write_file


def built_in(
    facts: FactStore, recall: Recall | None = None, more: Iterable[Tool[Any]] = ()
) -> Registry:
    """All built-in tools, in the order in which models and people are shown them.

    Without `recall` memory is searched by words only. `more`: a deployment's own tools.
    """
    tools: tuple[Tool[Any], ...] = (
        memory_search(recall or Recall(facts)),
        memory_write(facts),
        memory_forget(facts),
        list_files(),
        read_file(),
        read_file_chunk(),
        write_file(),
        append_file(),
        ask_clarification(),
        request_input(),
        offer_alternatives(),
    )
    return Registry((*tools, *more))
