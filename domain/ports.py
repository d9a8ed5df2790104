"""What an activity needs from outside when there is more than one way to provide it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from domain.messages import ModelReply, ModelRequest

OnText = Callable[[str], Awaitable[None]]
"""Called with each piece of text as it arrives (never empty, never the whole)."""


class Model(Protocol):
    async def stream(self, request: ModelRequest, on_text: OnText) -> ModelReply:
        """Call the model once. Raises Transient or Permanent; closes the upstream on cancel."""
        ...


Vector = Sequence[float]


class Embedder(Protocol):
    """Texts as vectors whose cosine says how near they are in meaning. Raises OutsideError."""

    @property
    def model(self) -> str:
        """Vectors of two models can't be compared."""
        ...

    async def passages(self, texts: Sequence[str]) -> list[Vector]:
        """Of what is to be found."""
        ...

    async def query(self, text: str) -> Vector:
        """Of what is asked."""
        ...
