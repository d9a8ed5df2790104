"""A run from its row."""

from pydantic import TypeAdapter

from adapters.postgres.pool import Row
from domain.events import RunStatus
from domain.messages import Origin, Usage
from domain.runs import Run, RunRequest

_request: TypeAdapter[RunRequest] = TypeAdapter(RunRequest)

RUN_COLUMNS = """
r.id, r.owner_id, r.session_id, s.thread_id, r.run_id, r.origin, r.status, r.request,
r.profile_name, r.executor, r.input_tokens, r.output_tokens, r.cached_tokens, r.cost_micro_usd,
r.turns, r.last_seq, r.paused, r.segment, r.error_code, r.error_message, r.limit_hit, r.created_at,
r.started_at, r.finished_at, r.not_before
"""


def request_of(data: str) -> RunRequest:
    return _request.validate_json(data)


def run_of(row: Row) -> Run:
    return Run(
        key=row["id"],
        owner_id=row["owner_id"],
        session_key=row["session_id"],
        thread_id=row["thread_id"],
        run_id=row["run_id"],
        origin=Origin(row["origin"]),
        status=RunStatus.WAITING if row["paused"] else RunStatus(row["status"]),
        segment=row["segment"],
        not_before=row["not_before"],
        request=request_of(row["request"]),
        profile=row["profile_name"],
        executor=row["executor"],
        usage=Usage(row["input_tokens"], row["output_tokens"], row["cached_tokens"]),
        cost_micro_usd=row["cost_micro_usd"],
        turns=row["turns"],
        last_seq=row["last_seq"],
        error_code=row["error_code"],
        error_message=row["error_message"],
        limit=row["limit_hit"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
    )


def dump_request(request: RunRequest) -> str:
    return _request.dump_json(request).decode()


def request_members(request: RunRequest, leaving_out: set[str]) -> object:
    """As what JSON has, for a digest."""
    return _request.dump_python(request, mode="json", exclude=leaving_out)
