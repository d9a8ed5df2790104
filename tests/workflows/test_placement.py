"""A deployment may make every step visible, or split the queues: the run stays the same run."""

from uuid import uuid4

from domain.events import RunStatus
from domain.runs import Placement
from tests.fixtures_worker import System, elsewhere


async def types(system: System, name: str) -> list[str]:
    run = await system.run(f"[[standin: id={name}]] remember that my name is Ada")
    assert run.status is RunStatus.COMPLETED
    history = await system.handle(run).fetch_history()
    return [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]


async def test_lean_makes_only_model_calls_activities(system: System) -> None:
    assert await types(system, "lean") == ["model.turn", "model.turn"]


async def test_lean_ends_the_run_with_its_last_turn(system: System) -> None:
    run = await system.run("hello")
    history = await system.handle(run).fetch_history()
    markers = [e for e in history.events if e.HasField("marker_recorded_event_attributes")]
    assert len(markers) == 1  # the beginning; the end is written with the model's answer
    assert (await system.look(run)).status is RunStatus.COMPLETED


async def test_ordinary_makes_every_step_but_the_first_visible(system: System) -> None:
    async with elsewhere(system, placement=Placement.ORDINARY) as ordinary:
        assert await types(ordinary, "ordinary") == [
            "model.turn",
            "tools.call",
            "model.turn",
            "runs.finish",
        ]


async def test_split_queues_are_served_by_their_own_workers(system: System) -> None:
    queues = {"model_queue": uuid4().hex, "tool_queue": uuid4().hex}
    async with elsewhere(system, **queues) as split:
        write = '[[standin: call=write_file args={"path":"a.txt","content":"b"}]]'
        run = await split.run(write)
        assert run.status is RunStatus.COMPLETED
        assert (split.settings.workspace_dir / str(run.session_key) / "a.txt").read_text() == "b"
