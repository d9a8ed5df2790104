"""The reference page shows exactly the registry."""

from pathlib import Path

import pytest

from adapters.postgres.facts import FactStore
from adapters.postgres.pool import Pool
from adapters.tools.catalog import built_in
from adapters.tools.reference import page

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tools.md"


async def test_the_page_is_what_the_declarations_say(pool: Pool) -> None:
    specs = built_in(FactStore(pool)).specs
    assert PAGE.read_text("utf-8") == page(specs.values())


async def test_every_tool_and_every_argument_is_described(pool: Pool) -> None:
    text = PAGE.read_text("utf-8")
    for spec in built_in(FactStore(pool)).specs.values():
        assert f"## `{spec.name}`" in text
        assert spec.description in text
        for field in spec.parameters["properties"]:
            assert f"| `{field}` |" in text
