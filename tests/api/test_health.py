"""Whether the process is well, when what it needs is not. No key is asked for."""

from typing import Any

import pytest

from adapters.postgres.pool import Pool
from tests.api.conftest import CORS_ORIGIN
from tests.api.relay import Relay
from tests.fixtures_api import Api, accepted, serving_api


async def test_all_parts_are_named_when_all_is_well(api: Api) -> None:
    live = await api.client().get("/health/live")
    assert (live.status_code, live.json()["status"]) == (200, "ready")
    ready = await api.client().get("/health/ready")
    assert ready.status_code == 200
    assert ready.json()["status"] == "ready"
    assert {name: part["status"] for name, part in ready.json()["parts"].items()} == {
        "database": "up",
        "redis": "up",
        "temporal": "up",
    }


@pytest.mark.parametrize(
    ("setting", "part", "status", "code"),
    [
        ("redis_url", "redis", "degraded", 200),
        ("database_url", "database", "unavailable", 503),
        ("temporal_address", "temporal", "unavailable", 503),
    ],
)
async def test_what_is_away_is_named_and_only_redis_may_be(
    api: Api, pool: Pool, relay: Relay, setting: str, part: str, status: str, code: int
) -> None:
    through: dict[str, Any] = {setting: relay.url(getattr(api.settings, setting))}
    async with serving_api(api.settings.model_copy(update=through), pool) as remote:
        ann = await remote.person("ann")
        assert (await ann.http.get("/health/ready")).json()["status"] == "ready"
        await relay.cut()
        ready = await ann.http.get("/health/ready")
        assert (ready.status_code, ready.json()["status"]) == (code, status)
        down = [name for name, one in ready.json()["parts"].items() if one["status"] == "down"]
        assert down == [part]
        assert (await ann.http.get("/health/live")).status_code == 200
        if part == "redis":  # degraded is not away: runs are taken
            await accepted(ann, run_id="r")
        if part == "database":
            lost = await ann.http.get("/me", headers={"origin": CORS_ORIGIN})
            assert (lost.status_code, lost.json()["type"]) == (503, "/problems/unavailable")
            assert lost.headers["content-type"] == "application/problem+json"
            assert lost.headers["access-control-allow-origin"] == CORS_ORIGIN
            assert int(lost.headers["retry-after"]) > 0
        await relay.mend()
        if part != "temporal":  # its client comes back in its own time
            assert (await ann.http.get("/health/ready")).json()["status"] == "ready"
            assert (await ann.http.get("/me")).status_code == 200
