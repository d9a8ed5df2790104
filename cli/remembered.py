"""What the daily memory job made of a slot: the facts that its runs wrote, and why."""

from typing import Any

from cli.client import AgentClient

NEWEST = 20


async def facts_of(client: AgentClient, slot: dict[str, Any]) -> list[dict[str, Any]]:
    """Facts with their evidence, newest first. Raises ApiError and Unreachable."""
    runs = {w["run_id"] for w in slot["windows"] if w["attempt"] == slot["attempt"]}
    listed = await client.ask("GET", "/memory/facts", query={"limit": str(NEWEST)})
    known = [await client.ask("GET", f"/memory/facts/{f['id']}") for f in listed["items"]]
    return [fact for fact in known if fact["sourceRun"] and fact["sourceRun"]["runId"] in runs]
