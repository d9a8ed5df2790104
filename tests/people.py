"""Users, sessions and runs for tests, through the production stores."""

from uuid import UUID, uuid4

from adapters.postgres.acceptance import Accepted
from adapters.postgres.pool import Pool
from adapters.postgres.runs import RunStore
from domain.messages import Message, Role
from domain.runs import NewRun, RunRequest


async def add_owner(pool: Pool, name: str | None = None) -> UUID:
    """A user's id."""
    return await pool.fetchval(
        "INSERT INTO users (name) VALUES ($1) RETURNING id", name or f"user-{uuid4().hex}"
    )


def user_message(text: str, id: str | None = None) -> Message:
    return Message(id or f"m-{uuid4().hex}", Role.USER, text)


def new_run(
    owner: UUID,
    text: str = "hello",
    *,
    thread_id: str = "thread",
    run_id: str | None = None,
    request: RunRequest | None = None,
    message_id: str | None = None,
) -> NewRun:
    return NewRun(
        owner_id=owner,
        thread_id=thread_id,
        run_id=run_id or f"run-{uuid4().hex}",
        request=request or RunRequest(),
        messages=(user_message(text, message_id),),
    )


async def accept(
    pool: Pool, owner: UUID, text: str = "hello", *, thread_id: str = "thread"
) -> Accepted:
    return await RunStore(pool).accept(new_run(owner, text, thread_id=thread_id))


async def begin(pool: Pool, key: UUID) -> None:
    """Mark a run as begun, with a profile frozen into it."""
    await pool.execute(
        "UPDATE runs SET status = 'running', executor = 'worker', profile_name = 'chat_default' "
        "WHERE id = $1",
        key,
    )
