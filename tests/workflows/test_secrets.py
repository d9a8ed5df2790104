"""A secret that a person gives reaches the tool it is for, and nobody else, for as long as the
run lasts."""

from uuid import uuid4

from adapters.postgres.checkpoints import CheckpointStore
from adapters.tools.registry import Arguments, Tool, ToolContext, declare
from domain.checkpoints import Answer, AnswerInput, AnswerResult, Via
from domain.tools import ToolKind
from tests.fixtures_worker import System, serving
from tests.workflows.test_approvals import open_ones, results


class Publish(Arguments):
    """Nothing: what it needs is a secret."""


def publishing(name: str, seen: list[str | None]) -> Tool[Publish]:
    async def run(arguments: Publish, context: ToolContext) -> str:
        seen.append(await context.secret("api_key"))
        return "published"

    return declare(name, "Publish.", Publish, run, kind=ToolKind.WRITE)


async def test_only_the_named_tool_reads_it_and_only_in_this_run(system: System) -> None:
    seen: list[str | None] = []
    spied: list[str | None] = []
    config = system.settings.model_copy(update={"run_queue": uuid4().hex})
    tools = [publishing("publish", seen), publishing("spy", spied)]
    async with serving(config, system.client, system.pool, tools) as stream:
        here = System(config, system.client, system.pool, stream, system.owner)
        need = '{"name":"api_key","why":"to publish","kind":"secret","for_tool":"publish"}'
        run = await here.start(
            f"[[standin: turn=1 call=request_input args={need}]] "
            "[[standin: turn=2 loop call=publish args={} call=spy args={}]]"
        )
        [asked] = await open_ones(here, run)
        assert seen == []
        drafted = await CheckpointStore(system.pool).draft_answer(
            system.owner, asked.id, actor_id=None, via=Via.API, action="answer", secret="s3cret"
        )
        given = AnswerInput((Answer(str(asked.id), "answer", drafted),), Via.API)
        await here.handle(run).execute_update("answer", given, result_type=AnswerResult)
        await here.handle(run).result()
        assert (seen, spied) == (["s3cret"], [None])
        assert all("s3cret" not in result.content for result in await results(here, run))
        history = await here.handle(run).fetch_history()
        assert not any(b"s3cret" in event.SerializeToString() for event in history.events)
        assert await system.pool.fetchval("SELECT count(*) FROM secrets") == 0
        await here.run("[[standin: turn=1 call=publish args={}]]")
        assert seen == ["s3cret", None]
