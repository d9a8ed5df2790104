"""Prompt texts from agents/prompts: files with named placeholders, filled when they are loaded."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from domain.extraction import WINDOW_FENCE
from domain.fences import CONTEXT_FENCE, TOOL_FENCE

_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}")
_BRACES = re.compile(r"\{\{|\}\}")

# Constant for a version of Varve: nothing that changes from run to run may enter the prefix.
VALUES: Mapping[str, str] = {
    "tool_fence": TOOL_FENCE,
    "context_fence": CONTEXT_FENCE,
    "window_fence": WINDOW_FENCE,
}


class PromptError(ValueError):
    """A prompt file has a placeholder that nothing fills; the text names file and placeholder."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The stable prefix of a system prompt, byte-identical from run to run."""

    name: str
    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]


def fill(name: str, template: str, values: Mapping[str, str]) -> Prompt:
    """Raises PromptError for an unknown, unfilled or malformed placeholder, or an empty text."""
    for match in _PLACEHOLDER.finditer(template):
        if match[1] not in values:
            raise PromptError(f"{name}: nothing fills {match[0]}")
    if stray := _BRACES.search(_PLACEHOLDER.sub("", template)):
        raise PromptError(f"{name}: {stray[0]} is not part of a placeholder")
    text = _PLACEHOLDER.sub(lambda match: values[match[1]], template).strip()
    if not text:
        raise PromptError(f"{name}: the prompt is empty")
    return Prompt(name, text)


def _load() -> Iterator[Prompt]:
    for entry in sorted(files("agents").joinpath("prompts").iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".md"):
            yield fill(entry.name.removesuffix(".md"), entry.read_text("utf-8"), VALUES)


PROMPTS: Mapping[str, Prompt] = {prompt.name: prompt for prompt in _load()}
"""Every prompt by name, filled. A bad file stops the process here, before any model sees it."""
