"""What tests of tools need: an owner with a session, and a way to call a tool in it."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

from adapters.postgres.pool import Pool
from adapters.postgres.runs import RunStore
from adapters.tools.registry import Registry, ToolContext
from domain.ids import tool_call_id
from domain.messages import Message, Role
from domain.runs import NewRun, RunRequest
from domain.tools import ToolCall, ToolLists, ToolResult

EVERYTHING = ToolLists(None, None, None)


@dataclass(frozen=True, slots=True)
class Caller:
    """An owner in the middle of a run; every call has its own id unless one is given."""

    owner: UUID
    run_key: UUID
    session: UUID
    message_id: str
    workspace: Path
    registry: Registry = field(repr=False)

    async def call(
        self,
        name: str,
        arguments: object,
        *,
        id: str | None = None,
        lists: ToolLists = EVERYTHING,
    ) -> ToolResult:
        """`arguments`: an object to send as JSON, or the text to send."""
        id = id or tool_call_id(self.run_key, 1, uuid4().int % 10**6)
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        context = ToolContext(
            owner_id=self.owner,
            run_key=self.run_key,
            session_key=self.session,
            idempotency_key=f"run:1:{id}",
            source_message_ids=(self.message_id,),
            workspace=self.workspace,
        )
        return await self.registry.dispatch(ToolCall(id, name, text), lists, context)


async def caller(pool: Pool, registry: Registry, workspace: Path) -> Caller:
    """A new owner with a run in a session of theirs."""
    owner = await add_owner(pool)
    message_id = f"message-{uuid4().hex}"
    accepted = await RunStore(pool).accept(
        NewRun(
            owner_id=owner,
            thread_id="thread",
            run_id=f"run-{uuid4().hex}",
            request=RunRequest(),
            messages=(Message(message_id, Role.USER, "hello"),),
        )
    )
    run = accepted.run
    return Caller(owner, run.key, run.session_key, message_id, workspace, registry)


async def add_owner(pool: Pool) -> UUID:
    return await pool.fetchval(
        "INSERT INTO users (name) VALUES ($1) RETURNING id", f"user-{uuid4().hex}"
    )


def nowhere(registry: Registry) -> Caller:
    """A caller for tools that need neither database nor files."""
    return Caller(uuid4(), uuid4(), uuid4(), "message", Path("workspace"), registry)
