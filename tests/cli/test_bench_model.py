"""The model benchmark plays the same turn every way. What it finds is not asserted."""

import pytest

from adapters.settings import load
from cli.bench.model import compare
from tests.fixtures_standin import Standin


@pytest.mark.parametrize("pace", ["", "flush"])
async def test_every_way_reads_the_same_text(standin: Standin, pace: str) -> None:
    settings = load({}, database_url="unused", redis_url="unused", model_base_url=standin.base_url)
    figures = await compare(settings, chunks=20, turns=5, pace=pace)
    assert len({figure.characters for figure in figures}) == 1
    assert figures[0].characters > 0
    assert all(figure.turns == 5 for figure in figures)
