"""Search of an owner's facts, by words and by meaning."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog

from adapters import words
from adapters.postgres.fact_reading import FactReader
from domain.errors import OutsideError
from domain.ports import Embedder, Vector
from domain.recall import (
    ANYTHING,
    ANYTHING_CHINESE,
    NOTHING,
    FoundFact,
    Near,
    Recalled,
    RecallStatus,
    chosen,
    level,
    ranked,
)

_LAZY = 64
"""Facts without a vector that a search embeds itself; the sweep does what is left."""
_PAUSE_S = 10.0
"""An embedder that failed is left alone for so long: its timeout is not waited for every time."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose facts, and which of them. `newest`: what to answer a question without words of its
    own ("what do you know about me"); else it is answered by meaning alone."""

    owner_id: UUID
    query: str
    limit: int = 20
    scopes: Sequence[str] | None = None
    min_confidence: float = 0.0
    newest: bool = True


class Recall:
    """Without an embedder it searches by words, and that is not degraded: it was asked for."""

    def __init__(self, facts: FactReader, embedder: Embedder | None = None) -> None:
        self._facts = facts
        self._index = facts.index
        self._embedder = embedder
        self._anything: tuple[list[Vector], list[Vector]] | None = None
        self._back_at = 0.0

    async def any(self, owner_id: UUID) -> bool:
        """Whether there is anything to search."""
        return await self._index.any(owner_id)

    async def search(self, asked: Asked) -> Recalled:
        """The best facts, best first. Raises what the database raises: a search that failed is
        not "nothing is remembered"."""
        wanted = words.asked(asked.query)
        if asked.newest and not wanted:
            return Recalled(await self._newest(asked))
        if not await self._index.any(asked.owner_id):
            return NOTHING
        await self._index.add_words(asked.owner_id, _LAZY)
        hits = await self._index.by_words(
            asked.owner_id, wanted, scopes=asked.scopes, min_confidence=asked.min_confidence
        )
        near, status = await self._near(asked)
        scores = ranked(hits, near)
        facts = await self._index.these(asked.owner_id, list(scores))
        return Recalled(chosen(scores, facts, asked.limit), status)

    async def index(self, limit: int) -> int:
        """Work out words and vectors that are missing, of any owner's current facts, at most
        `limit` of each. Returns how many were; 0: none is missing, or the embedder is away."""
        done = await self._index.add_words(None, limit)
        try:
            return done + await self._embed(None, limit)
        except OutsideError as error:
            self._away(error)
            return done

    async def _newest(self, asked: Asked) -> tuple[FoundFact, ...]:
        facts = await self._facts.list(
            asked.owner_id,
            limit=asked.limit,
            scopes=asked.scopes,
            min_confidence=asked.min_confidence,
        )
        return tuple(FoundFact(fact, 0.0) for fact in facts)

    async def _near(self, asked: Asked) -> tuple[tuple[Near, ...], RecallStatus]:
        """What is near in meaning, or that nobody can tell just now."""
        if self._embedder is None:
            return (), RecallStatus.OK
        if time.monotonic() < self._back_at:
            return (), RecallStatus.DEGRADED
        try:
            await self._embed(asked.owner_id, _LAZY)
            vector = await self._embedder.query(asked.query)
            levels = await self._levels(vector)
        except OutsideError as error:
            self._away(error)
            return (), RecallStatus.DEGRADED
        near = await self._index.by_meaning(
            asked.owner_id,
            vector,
            self._embedder.model,
            levels=levels,
            scopes=asked.scopes,
            min_confidence=asked.min_confidence,
        )
        return near, RecallStatus.OK

    async def _embed(self, owner_id: UUID | None, limit: int) -> int:
        """Vectors for facts that have none of this model."""
        if self._embedder is None:
            return 0
        model = self._embedder.model
        todo = await self._index.unembedded(owner_id, model, limit)
        if todo:
            vectors = await self._embedder.passages([text for _, text in todo])
            ids = [fact_id for fact_id, _ in todo]
            await self._index.set_vectors(model, list(zip(ids, vectors, strict=True)))
        return len(todo)

    async def _levels(self, vector: Vector) -> tuple[float, float]:
        """How near a sentence about anything else is, in Chinese and in other languages."""
        assert self._embedder is not None
        if self._anything is None:
            both = await self._embedder.passages((*ANYTHING_CHINESE, *ANYTHING))
            self._anything = (both[: len(ANYTHING_CHINESE)], both[len(ANYTHING_CHINESE) :])
        chinese, others = self._anything
        return (
            level([_cosine(vector, each) for each in chinese]),
            level([_cosine(vector, each) for each in others]),
        )

    def _away(self, error: OutsideError) -> None:
        self._back_at = time.monotonic() + _PAUSE_S
        _log.error("embeddings_away", error=str(error), code=error.code)


def _cosine(one: Vector, other: Vector) -> float:
    length = math.sqrt(math.fsum(a * a for a in one) * math.fsum(b * b for b in other))
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / length if length else 0.0
