"""What a tool returned, made fit for a prompt: storable, and never longer than its bound."""

import asyncio

from adapters import tokens
from domain.text import clean
from domain.tools import ToolSpec

_INLINE = 16_384  # characters; tokenising longer output is moved off the event loop


async def bounded(output: str, spec: ToolSpec, read_on: str) -> str:
    """`output` cleaned, and cut to `spec.result_tokens` with a notice where the middle was."""
    if len(output) <= _INLINE:
        return shorten(output, spec, read_on)
    return await asyncio.to_thread(shorten, output, spec, read_on)


def shorten(output: str, spec: ToolSpec, read_on: str) -> str:
    """At most `spec.result_tokens` tokens: 75 % head, 25 % tail, and a notice between."""
    output = clean(output)
    # The notice is measured with the longest number it can carry.
    reserve = tokens.count(_notice(spec, "about 999,999,999", len(output), read_on))
    cut = tokens.cut(output, spec.result_tokens, reserve=reserve)
    if cut is None:
        return output
    size = f"{'' if cut.exact else 'about '}{cut.tokens:,}"
    return cut.head + _notice(spec, size, len(output), read_on) + cut.tail


def _notice(spec: ToolSpec, size: str, characters: int, read_on: str) -> str:
    return (
        f"\n\n[… {spec.name}: the middle is left out. The whole output has {size} tokens "
        f"({characters:,} characters), the limit is {spec.result_tokens:,}. "
        f"To read on: {read_on}. …]\n\n"
    )
