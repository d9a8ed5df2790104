"""What must hold when all is calm again: counted in the database, the engine and on the disk."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from adapters.postgres.pool import Row
from cli.bench.chaos.lanes import Told
from cli.bench.chaos.scripts import LOG
from cli.bench.stage import Ground
from cli.stack.postgres import connection
from domain.ids import AGENT_RUN, run_key, session_key

# A run with what it left behind. `said`: final answers, which a run that completed has one of.
_RUNS = """
SELECT r.id, r.session_id, r.status, r.error_code, r.last_seq,
       (SELECT count(*) FROM run_events e WHERE e.run_id = r.id) AS events,
       (SELECT count(*) FROM run_events e WHERE e.run_id = r.id
        AND e.kind = 'run_finished') AS ends,
       (SELECT e.kind FROM run_events e WHERE e.run_id = r.id ORDER BY e.seq DESC LIMIT 1) AS last,
       (SELECT count(*) FROM messages m WHERE m.run_id = r.id AND m.role = 'user') AS asked,
       (SELECT count(*) FROM messages m WHERE m.run_id = r.id AND m.role = 'assistant'
           AND m.metadata ->> 'finish_reason' = 'stop') AS said,
       (SELECT coalesce(json_agg(m.content ORDER BY m.seq), '[]') FROM messages m
        WHERE m.run_id = r.id AND m.role = 'assistant' AND m.content <> '') AS texts,
       (SELECT coalesce(json_agg(c.call ->> 'id'), '[]') FROM messages m,
               jsonb_array_elements(m.tool_calls) AS c(call) WHERE m.run_id = r.id) AS calls,
       (SELECT coalesce(json_agg(json_build_object('state', c.state, 'input', c.input)), '[]')
        FROM checkpoints c WHERE c.run_id = r.id) AS asked_of,
       (SELECT coalesce(json_agg(json_build_array(m.tool_call_id, m.metadata ->> 'status')), '[]')
        FROM messages m WHERE m.run_id = r.id AND m.role = 'tool') AS results
FROM runs r WHERE r.id = ANY($1::uuid[])
"""
_HOLES = """
SELECT count(*) FROM (SELECT FROM messages WHERE owner_id = $1 GROUP BY session_id
                      HAVING count(*) <> max(seq)) AS s
"""
_BUSY = "SELECT count(*) FROM runs WHERE owner_id = $1 AND finished_at IS NULL"


@dataclass(slots=True)
class Verdict:
    """`breaches`: what did not hold, by rule, with the runs. All empty: nothing was lost."""

    runs: int = 0
    statuses: Counter[str] = field(default_factory=Counter[str])
    failures: Counter[str] = field(default_factory=Counter[str])
    tool_effects: int = 0
    breaches: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def breach(self, rule: str, run: str) -> None:
        self.breaches.setdefault(rule, []).append(run)


async def judged(ground: Ground, owner: UUID, told: Sequence[Told]) -> Verdict:
    """Look at every run that was asked for. Raises what the database raises if it is not back."""
    verdict = Verdict(runs=len(told))
    keys = {run_key(owner, one.run_id): one for one in told}
    async with connection(ground.endpoints.database_url) as database:
        rows = {row["id"]: row for row in await database.fetch(_RUNS, list(keys))}
        holes = await database.fetchval(_HOLES, owner)
        busy = await database.fetchval(_BUSY, owner)
    for key, one in keys.items():
        if one.refused is not None:
            verdict.breach("accepted within seconds", f"{one.run_id}: {one.refused}")
        elif (row := rows.get(key)) is None:
            verdict.breach("lost", one.run_id)
        else:
            _run(verdict, one, row)
            _effects(verdict, one, row, _lines(ground, owner, one))
    if holes:
        verdict.breach("messages numbered without a hole", f"{holes} sessions")
    if busy:
        verdict.breach("no session stays busy", f"{busy} runs")
    if waiting := await _open_workflows(ground):
        verdict.breach("no workflow is left", f"{waiting} workflows")
    return verdict


def _run(verdict: Verdict, one: Told, row: Row) -> None:
    status: str = row["status"]
    verdict.statuses[status] += 1
    if status == "failed":
        verdict.failures[row["error_code"]] += 1
    texts: list[str] = json.loads(row["texts"])
    answered = sorted(id for id, _ in json.loads(row["results"]))
    rules = {
        "one end": row["ends"] == 1 and row["last"] == "run_finished",
        "events numbered without a hole": row["events"] == row["last_seq"],
        "the user's message once": row["asked"] == 1,
        "one result per tool call": sorted(json.loads(row["calls"])) == answered,
        "ids increase for a reader": one.disorder == 0,
        "the reader was told the end": one.end is not None,
    }
    if status == "completed":
        rules["one final answer"] = row["said"] == 1
        rules["the whole answer"] = len(texts[-1].split()) == one.script.words
    if one.script.asks:
        told = [(r["state"], r["input"]) for r in json.loads(row["asked_of"])]
        rules["the question was answered once"] = told == [("answered", one.run_id)]
    if texts and status != "failed":
        rules["readers see what is stored"] = one.text == texts[-1]
    for rule, holds in rules.items():
        if not holds:
            verdict.breach(rule, one.run_id)


def _effects(verdict: Verdict, one: Told, row: Row, lines: int) -> None:
    """A tool that may not be repeated has had its effect at most once, and what says ok has."""
    if not one.script.appends:
        return
    verdict.tool_effects += lines
    if lines > 1:
        verdict.breach("a tool that runs once ran once", one.run_id)
    if lines == 0 and any(status == "ok" for _, status in json.loads(row["results"])):
        verdict.breach("a tool that says ok has had its effect", one.run_id)


def _lines(ground: Ground, owner: UUID, one: Told) -> int:
    log: Path = ground.state.workspaces / str(session_key(owner, one.thread_id)) / LOG
    try:
        return log.read_text().splitlines().count(one.run_id)
    except FileNotFoundError:
        return 0


async def _open_workflows(ground: Ground) -> int:
    query = f"WorkflowType = '{AGENT_RUN}' AND ExecutionStatus = 'Running'"
    return (await ground.client.count_workflows(query)).count
