"""What an activity needs from outside when there is more than one way to provide it."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from domain.messages import ModelReply, ModelRequest

OnText = Callable[[str], Awaitable[None]]
"""Called with each piece of text as it arrives (never empty, never the whole)."""


class Model(Protocol):
    async def stream(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        """Call the model once. Raises Transient or Permanent; closes the upstream on cancel."""
        ...
