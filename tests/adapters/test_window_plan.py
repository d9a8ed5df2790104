"""The window's cost does not grow with the session: the plan and the pages it reads say so."""

import json
from typing import Any
from uuid import UUID

from adapters.postgres.messages import WINDOW, MessageStore
from adapters.postgres.pool import Pool
from domain.messages import Role
from tests.people import accept, add_owner

_FILL = """
INSERT INTO messages (session_id, seq, id, owner_id, run_id, role, content)
SELECT $1, n, 'filled-' || n, $2, $3,
       CASE WHEN n % 4 = 0 THEN 'user' WHEN n % 4 = 2 THEN 'tool' ELSE 'assistant' END,
       'message number ' || n || repeat(' lorem ipsum', 8)
FROM generate_series(2, $4::bigint) AS n
"""


async def session_of(pool: Pool, messages: int) -> UUID:
    """A session with that many messages, a quarter of them the user's."""
    owner = await add_owner(pool)
    run = (await accept(pool, owner)).run
    async with pool.acquire() as connection:
        fill: Any = connection
        await fill.execute(_FILL, run.session_key, owner, run.key, messages, timeout=300)
    return run.session_key


async def plan_of(pool: Pool, query: str, *arguments: object) -> dict[str, Any]:
    explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}"
    await pool.fetchval(explain, *arguments)  # warm
    return json.loads(await pool.fetchval(explain, *arguments))[0]["Plan"]


def nodes(tree: dict[str, Any]) -> list[dict[str, Any]]:
    return [tree, *(node for child in tree.get("Plans", []) for node in nodes(child))]


def pages(tree: dict[str, Any]) -> int:
    return tree["Shared Hit Blocks"] + tree["Shared Read Blocks"]


async def test_a_million_messages_cost_the_window_no_more_pages_than_a_hundred(
    pool: Pool,
) -> None:
    small, large = await session_of(pool, 100), await session_of(pool, 1_000_000)
    await pool.execute("VACUUM ANALYZE messages")
    plans = {
        name: await plan_of(pool, WINDOW, key, 20, False)
        for name, key in (("small", small), ("large", large))
    }
    for tree in plans.values():
        scans = [node for node in nodes(tree) if "Scan" in node["Node Type"]]
        assert {node["Node Type"] for node in scans} <= {
            "Index Scan",
            "Index Only Scan",
            "Bitmap Index Scan",
            "Bitmap Heap Scan",
            "Subquery Scan",
        }
        assert {n["Index Name"] for n in scans if "Index Name" in n} == {
            "messages_user_idx",
            "messages_pkey",
        }
    # Twice, for the deeper tree; a scan would be ten thousand times.
    assert pages(plans["large"]) <= 2 * pages(plans["small"])
    window = await MessageStore(pool).window(large, 20)
    assert window[0].role is Role.USER
    assert sum(message.role is Role.USER for message in window) == 20
    assert window[-1].seq == 1_000_000
