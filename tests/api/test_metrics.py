"""What Prometheus reads: counts of jobs and slots, for operators and for this machine."""

from uuid import UUID

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from adapters.temporal import connect, measured
from api.app import PREFIX
from cli.stack.ports import free_port
from domain.identity import UserRole
from tests.fixtures_api import Api, Person

PROXIED = {"x-forwarded-for": "203.0.113.7"}


def _url(api: Api) -> str:
    return f"{api.base_url.removesuffix(PREFIX)}/metrics"


async def _read(api: Api) -> dict[tuple[str, str], float]:
    """By name and value of the label."""
    response = await api.client().get(_url(api))
    assert response.status_code == 200
    families = text_string_to_metric_families(response.text)
    return {
        (sample.name, "".join(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


async def test_jobs_and_slots_are_counted(api: Api, alice: Person) -> None:
    empty = await _read(api)
    assert empty["varve_jobs", "active"] == 1
    assert empty["varve_job_slots_recent", "failed"] == 0
    assert empty["varve_job_slot_oldest_running_seconds", ""] == 0
    id: UUID = await api.pool.fetchval("SELECT id FROM automation_jobs")
    for slot, status in (("2026-11-01", "failed"), ("2026-11-02", "running")):
        await api.pool.execute(
            "INSERT INTO job_slots (job_id, slot, owner_id, scheduled_at, workflow_id,"
            " workflow_run_id, status, started_at, snapshot)"
            " VALUES ($1, $2, $3, now(), 'w', 'r', $4, now() - interval '1 minute', '{}')",
            *(id, slot, alice.user.id, status),
        )
    await api.pool.execute("UPDATE automation_jobs SET missed = 2, failed_in_a_row = 3")
    full = await _read(api)
    assert full["varve_job_slots_missed", ""] == 2
    assert full["varve_jobs_failing", ""] == 1
    assert full["varve_job_slots_recent", "failed"] == 1
    assert full["varve_job_slot_oldest_running_seconds", ""] >= 60
    assert full.keys() == empty.keys()


async def test_from_elsewhere_an_operator_s_key_is_needed(api: Api, alice: Person) -> None:
    olga = await api.person("olga", UserRole.OPERATOR)
    assert (await api.client().get(_url(api), headers=PROXIED)).status_code == 401
    assert (await alice.http.get(_url(api), headers=PROXIED)).status_code == 403
    assert (await olga.http.get(_url(api), headers=PROXIED)).status_code == 200


async def test_the_worker_s_sdk_is_measured_where_it_is_told_to(temporal_address: str) -> None:
    address = f"127.0.0.1:{free_port()}"
    await connect(temporal_address, "default", measured(address))
    async with httpx2.AsyncClient(trust_env=False) as http:
        assert "temporal_request" in (await http.get(f"http://{address}/metrics")).text
