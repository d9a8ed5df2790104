"""`varve up --smoke`, second part: what was said in a chat is remembered by the daily job."""

import os
import secrets
from typing import Any
from uuid import UUID, uuid4

from temporalio.service import RPCError

from adapters.temporal import connect
from cli.automation import Automation
from cli.client import AgentClient, ApiError
from cli.finding import Finding
from cli.remembered import facts_of
from cli.stack.state import Endpoints
from domain.jobs import DAILY_MEMORY, schedule_id


async def look_at_memory(endpoints: Endpoints) -> list[Finding]:
    """Say something, run the daily memory job over it, look at what came of it."""
    said = f"My lucky number is {secrets.randbelow(90_000) + 10_000}."
    async with (
        AgentClient(endpoints.api_url, endpoints.demo_api_key) as client,
        Automation(endpoints.api_url, endpoints.demo_api_key) as jobs,
    ):
        thread, run_id = f"smoke-{uuid4().hex[:12]}", f"run-{uuid4().hex[:16]}"
        async for _ in client.run(thread, said, run_id=run_id):
            pass
        job = await jobs.get(DAILY_MEMORY)
        slot = await jobs.run_now(DAILY_MEMORY, again=True)
        return [
            await _schedule(endpoints, UUID(job["id"])),
            Finding("memory job", slot["status"] == "completed", _told(slot)),
            *[await _fact(client, slot), await _hidden(client, slot)],
            await _refused(jobs),
        ]


async def _schedule(endpoints: Endpoints, job_id: UUID) -> Finding:
    namespace = os.environ.get("VARVE_TEMPORAL_NAMESPACE", "default")
    client = await connect(endpoints.temporal_address, namespace)
    try:
        found = await client.get_schedule_handle(schedule_id(job_id)).describe()
    except RPCError as error:
        return Finding("schedule", False, error.message)
    due = found.info.next_action_times
    return Finding("schedule", bool(due), f"next {due[0]:%Y-%m-%d %H:%M} UTC" if due else "never")


def _told(slot: dict[str, Any]) -> str:
    error = f": {slot['error_message']}" if slot["error_message"] else ""
    return f"slot {slot['slot']} {slot['status']}{error}"


async def _fact(client: AgentClient, slot: dict[str, Any]) -> Finding:
    facts = await facts_of(client, slot)
    ok = bool(facts) and all(fact["evidence"] for fact in facts)
    told = [f"{each['fact']['key']}: {each['fact']['value']}" for each in facts]
    return Finding("fact with evidence", ok, ", ".join(told) or "none")


async def _hidden(client: AgentClient, slot: dict[str, Any]) -> Finding:
    """What the job was told is not in the history that its user sees."""
    if not slot["windows"]:
        return Finding("hidden messages", False, "the job read nothing")
    messages = (await client.history(slot["windows"][0]["thread_id"]))["messages"]
    shown = [message["role"] for message in messages]
    return Finding("hidden messages", "user" not in shown, ", ".join(shown) or "none shown")


async def _refused(jobs: Automation) -> Finding:
    try:
        await jobs.act(DAILY_MEMORY, "trigger")
    except ApiError as error:
        return Finding("once a day", error.status == 409, str(error))
    return Finding("once a day", False, "the slot ran twice without being asked again")
