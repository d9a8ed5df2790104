"""`varve bench run --quick` measures everything once. Times are not asserted: machines differ."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MOST_EVENTS = 25


@pytest.fixture(scope="module")
def findings() -> dict[str, Any]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("VARVE_")}
    command = [Path(sys.executable).parent / "varve", "bench", "run", "--quick", "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def numbers(value: Any) -> Iterator[float]:
    match value:
        case dict():
            for each in value.values():  # pyright: ignore[reportUnknownVariableType]
                yield from numbers(each)
        case list():
            for each in value:  # pyright: ignore[reportUnknownVariableType]
                yield from numbers(each)
        case int() | float():
            yield value
        case _:
            return


def test_every_figure_is_a_number(findings: dict[str, Any]) -> None:
    found = list(numbers([findings["figures"], findings["firsts"]]))
    assert len(found) > 100
    assert all(math.isfinite(number) and number >= 0 for number in found)
    assert {load["concurrency"] for f in findings["figures"] for load in f["loads"]} == {1, 4}


def test_a_run_of_two_turns_has_few_events_whatever_the_text(findings: dict[str, Any]) -> None:
    [figure] = [f for f in findings["figures"] if f["name"] == "two turns, two tools"]
    assert figure["history"]["events"] <= MOST_EVENTS
    assert figure["history_long"]["events"] == figure["history"]["events"]
    assert abs(figure["history_long"]["size"] - figure["history"]["size"]) < 100


def test_the_first_token_is_timed_beside_a_direct_call(findings: dict[str, Any]) -> None:
    assert {first["name"] for first in findings["firsts"]} == {"direct call", "POST /runs"}
