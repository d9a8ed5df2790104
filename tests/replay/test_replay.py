"""Old runs must still replay. Never re-record a history to make this pass: use workflow.patched."""

from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from domain.ids import AGENT_RUN
from tests.replay.corpus import FOLDER
from workers.agent import STRICT_SANDBOX, WORKFLOWS

with workflow.unsafe.imports_passed_through():
    from activities.runs import FinishInput, RunActivities
    from domain.events import RunStatus
    from domain.runs import AgentRunInput, Ending
    from workflows.options import quick_local

HISTORIES = sorted(FOLDER.glob("*.json"))


def history(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(path.stem, path.read_text())


def replayer(*workflows: type) -> Replayer:
    return Replayer(
        workflows=workflows,
        data_converter=pydantic_data_converter,
        workflow_runner=STRICT_SANDBOX,
    )


def test_the_corpus_has_each_way_a_run_can_go() -> None:
    assert {path.stem for path in HISTORIES} >= {
        "answers_without_tools",
        "calls_a_tool",
        "calls_two_tools",
        "denies_a_tool",
        "fails_for_good",
        "interrupted",
        "reconciles_runs",
    }


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_replays(path: Path) -> None:
    await replayer(*WORKFLOWS).replay_workflow(history(path))


@workflow.defn(name=AGENT_RUN)
class FinishesFirst:
    """The run with its order broken on purpose: the end is recorded before anything is said."""

    @workflow.run
    async def run(self, input: AgentRunInput) -> None:
        await workflow.execute_local_activity_method(
            RunActivities.finish,
            FinishInput(input.run_key, Ending(RunStatus.COMPLETED)),
            **quick_local("end"),
        )


@workflow.defn(name=AGENT_RUN)
class SkipsEverything:
    """A run that does nothing at all."""

    @workflow.run
    async def run(self, input: AgentRunInput) -> None:
        return


@pytest.mark.parametrize("mutation", [FinishesFirst, SkipsEverything])
@pytest.mark.parametrize(
    "path", [path for path in HISTORIES if "reconciles" not in path.stem], ids=lambda p: p.stem
)
async def test_the_corpus_notices_a_broken_order(path: Path, mutation: type) -> None:
    with pytest.raises(workflow.NondeterminismError):
        await replayer(mutation).replay_workflow(history(path))
