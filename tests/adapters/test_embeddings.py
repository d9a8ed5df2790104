"""Embedders: the one in the process, and an endpoint over real HTTP, well and ill."""

import math
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from adapters import settings
from adapters.embeddings import LocalEmbedder, open_embedder
from adapters.settings import SettingsError
from domain.errors import OutsideError
from tests.cli.serving import serving

pytestmark = pytest.mark.anyio
STORES = {"database_url": "postgresql://h/d", "redis_url": "redis://h/0"}


async def embeddings(request: Request) -> Response:
    body: dict[str, Any] = await request.json()
    if body["model"] == "broken":
        return JSONResponse({"error": {"message": "no"}}, 500)
    count = len(body["input"]) if body["model"] == "good" else 0
    data = [{"object": "embedding", "index": i, "embedding": [1.0, float(i)]} for i in range(count)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return JSONResponse({"object": "list", "model": "m", "data": data[::-1], "usage": usage})


async def test_what_is_near_in_meaning_is_near_in_vectors() -> None:
    embedder = LocalEmbedder()
    tea, car = await embedder.passages(["Likes green tea.", "Drives a red Volvo."])
    asked = await embedder.query("What do I drink in the morning?")
    assert sum(map(math.prod, zip(asked, tea, strict=True))) > sum(
        map(math.prod, zip(asked, car, strict=True))
    )


async def test_an_endpoint_s_vectors_come_in_the_order_of_the_texts() -> None:
    app = Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"])])
    async with serving(app) as url:
        config = settings.load(
            {},
            **STORES,
            embeddings="endpoint",
            embeddings_base_url=f"{url}/v1",
            embeddings_model="good",
        )
        async with open_embedder(config) as embedder:
            assert embedder is not None
            vectors = await embedder.passages([f"text {i}" for i in range(20)])
            assert [vector[1] for vector in vectors] == [*range(16), *range(4)]
            assert embedder.model == "good"


@pytest.mark.parametrize("model", ["broken", "empty"])
async def test_an_endpoint_that_is_ill_is_an_outside_error(model: str) -> None:
    app = Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"])])
    async with serving(app) as url:
        config = settings.load(
            {},
            **STORES,
            embeddings="endpoint",
            embeddings_base_url=f"{url}/v1",
            embeddings_model=model,
        )
        async with open_embedder(config) as embedder:
            assert embedder is not None
            with pytest.raises(OutsideError):
                await embedder.query("text")


async def test_off_is_no_embedder() -> None:
    async with open_embedder(settings.load({}, **STORES, embeddings="off")) as embedder:
        assert embedder is None


def test_an_endpoint_without_an_address_is_refused_at_start() -> None:
    with pytest.raises(SettingsError, match="VARVE_EMBEDDINGS_BASE_URL"):
        settings.load({}, **STORES, embeddings="endpoint")
