"""Old runs must still replay. Never re-record a history to make this pass: use workflow.patched."""

from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from tests.replay.corpus import FOLDER
from tests.replay.mutants import (
    AsksOnceMore,
    EndsBeforeItSpeaks,
    LeavesItsSlotUnread,
    SkipsEverything,
)
from workers.agent import STRICT_SANDBOX, WORKFLOWS

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
        "extracts",
        "extracts_after_a_repair",
        "extracts_in_vain",
        "extracts_nothing",
        "extracts_what_is_denied",
        "fails_for_good",
        "interrupted",
        "reconciles_runs",
        "approves_a_tool",
        "nobody_approves",
        "tells_of_an_end",
        "fires_a_job",
        "fires_a_job_in_windows",
        "fires_a_job_that_fails",
        "fires_a_slot_that_is_taken",
        "reconciles_jobs",
        "reconciles_jobs_and_indexes_facts",
    }


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_replays(path: Path) -> None:
    await replayer(*WORKFLOWS).replay_workflow(history(path))


OF_JOBS = [path for path in HISTORIES if path.stem.startswith("fires_a_job")]
OF_RUNS = [path for path in HISTORIES if not path.stem.startswith(("fires", "reconciles", "tells"))]


@pytest.mark.parametrize("path", OF_JOBS, ids=lambda path: path.stem)
async def test_the_corpus_notices_a_job_that_leaves_its_slot_unread(path: Path) -> None:
    with pytest.raises(workflow.NondeterminismError):
        await replayer(LeavesItsSlotUnread).replay_workflow(history(path))


@pytest.mark.parametrize("mutation", [EndsBeforeItSpeaks, SkipsEverything])
@pytest.mark.parametrize("path", OF_RUNS, ids=lambda path: path.stem)
async def test_the_corpus_notices_a_broken_order(path: Path, mutation: type) -> None:
    with pytest.raises(workflow.NondeterminismError):
        await replayer(mutation).replay_workflow(history(path))


@pytest.mark.parametrize("name", ["extracts", "extracts_after_a_repair", "extracts_in_vain"])
async def test_the_corpus_notices_a_model_call_too_many(name: str) -> None:
    with pytest.raises(workflow.NondeterminismError):
        await replayer(AsksOnceMore).replay_workflow(history(FOLDER / f"{name}.json"))
