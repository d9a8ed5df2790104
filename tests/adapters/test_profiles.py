"""Profiles as files: what is read, what is refused by which name, what is written."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from adapters.profiles import Deprecations, ProfileCatalog, as_document, dump, load, read
from domain.errors import InvalidInput, NotFound
from domain.identity import UserRole
from domain.profiles import Executor, Limits, MemoryPolicy, ModelChoice, Profile

SMALL = {"name": "small", "executor": "worker", "model": {"name": "m"}}

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,20}", fullmatch=True)
tool_names = st.lists(st.text(min_size=1, max_size=8), max_size=4).map(tuple)
profiles = st.builds(
    Profile,
    name=names,
    executor=st.sampled_from(Executor),
    model=st.builds(ModelChoice, names, st.booleans(), st.lists(names, max_size=2).map(tuple)),
    window_user_messages=st.integers(1, 200),
    allowlist=st.none() | tool_names,
    require_approval=tool_names,
    limits=st.builds(
        Limits,
        max_turns=st.integers(1, 200),
        turn_budget_tokens=st.integers(1_000, 2_000_000),
        max_output_tokens=st.integers(16, 200_000),
        timeout_s=st.integers(1, 86_400),
        max_cost_usd=st.none() | st.decimals("0.01", "1000", places=2).map(str),
    ),
    prompt=names,
    memory=st.builds(MemoryPolicy, st.integers(0, 20), st.floats(0, 1)),
)


@given(profiles)
def test_what_is_written_is_read_back_the_same(profile: Profile) -> None:
    assert load(dump(profile)) == profile
    assert load(as_document(profile)) == profile


@given(profiles)
def test_no_old_field_is_ever_written(profile: Profile) -> None:
    document = as_document(profile)
    assert "enable_router" not in document
    assert "window" not in document["history_policy"]
    assert read(document).deprecated == ()


def test_a_small_profile_gets_the_documented_defaults() -> None:
    profile = load(SMALL)
    assert profile.window_user_messages == 20
    assert profile.tools == ("*",)
    assert not profile.model.thinking
    assert profile.limits == Limits()
    assert profile.prompt == "worker-a"


def test_an_absent_allowlist_is_the_executors_and_an_empty_one_is_nothing() -> None:
    memory = {**SMALL, "executor": "memory"}
    assert load(memory).tools == ("memory_write", "memory_forget")
    assert load({**memory, "tool_policy": {"mode": "intersection"}}).allowlist is None
    assert load({**memory, "tool_policy": {"allowlist": []}}).tools == ()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"model": {"name": "m", "temperature": 1}}, "model.temperature"),
        ({"model": {"name": "m", "thinking": True}}, "model.thinking"),
        ({"model": {"name": "m", "thinking": "maybe"}}, "model.thinking"),
        ({"model": {}}, "model.name"),
        ({"executor": "router"}, "executor"),
        ({"executor": None}, "executor"),
        ({"history_policy": {"n": 0}}, "history_policy.n"),
        ({"history_policy": {"n": 201}}, "history_policy.n"),
        ({"history_policy": {"n": "20"}}, "history_policy.n"),
        ({"history_policy": {"n": 20.0}}, "history_policy.n"),
        ({"history_policy": {"n": True}}, "history_policy.n"),
        ({"history_policy": {"mode": "all"}}, "history_policy.mode"),
        ({"history_policy": {"window": "last_week"}}, "history_policy.window"),
        ({"tool_policy": {"mode": "union"}}, "tool_policy.mode"),
        ({"tool_policy": {"allowlist": None}}, "tool_policy.allowlist"),
        ({"tool_policy": {"allowlist": "memory_write"}}, "tool_policy.allowlist"),
        ({"tool_policy": {"allowlist": [1]}}, "tool_policy.allowlist.0"),
        ({"limits": {"max_turns": 0}}, "limits.max_turns"),
        ({"limits": {"max_cost_usd": 1.5}}, "limits.max_cost_usd"),
        ({"limits": {"max_cost_usd": "much"}}, "limits.max_cost_usd"),
        ({"limits": {"max_cost_usd": "NaN"}}, "limits.max_cost_usd"),
        ({"limits": {"max_cost_usd": "-1"}}, "limits.max_cost_usd"),
        ({"memory": {"min_confidence": 2}}, "memory.min_confidence"),
        ({"name": ""}, "name"),
    ],
)
def test_what_is_wrong_is_named_by_its_path(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        load({**SMALL, **change})
    assert raised.value.field == field


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 10_000])
def test_what_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        load(text)


@pytest.mark.parametrize("router", [True, False, None, "yes", {"model": "x"}])
def test_the_old_router_switch_is_ignored_whatever_it_says(router: object) -> None:
    reading = read({**SMALL, "enable_router": router})
    assert reading.profile == load(SMALL)
    assert reading.deprecated == ("enable_router",)


def test_the_old_window_is_read_as_twenty_user_messages() -> None:
    reading = read({**SMALL, "history_policy": {"window": "today_yesterday"}})
    assert reading.profile.window_user_messages == 20
    assert reading.deprecated == ("history_policy.window",)


def test_an_n_beside_the_old_window_counts() -> None:
    policy = {"window": "today_yesterday", "mode": "last_n_user_messages", "n": 25}
    assert load({**SMALL, "history_policy": policy}).window_user_messages == 25


def test_a_deprecation_is_reported_once_per_source() -> None:
    deprecations = Deprecations()
    with capture_logs() as logs:
        for source in ("job 1", "job 1", "job 2"):
            deprecations.report(source, ("enable_router",))
    assert [(log["source"], log["field"]) for log in logs] == [
        ("job 1", "enable_router"),
        ("job 2", "enable_router"),
    ]


def test_the_built_in_profiles_are_those_documented() -> None:
    catalog = ProfileCatalog()
    assert [p.name for p in catalog.all()] == [
        "automation_memory_default",
        "chat_default",
        "subtask_default",
    ]
    chat, memory = catalog.get("chat_default"), catalog.get("automation_memory_default")
    subtask = catalog.get("subtask_default")
    assert (chat.executor, chat.model.name) == (Executor.WORKER, "qwen3.5-30b-a3b")
    assert (memory.executor, memory.model.name) == (Executor.MEMORY, "qwen3.5-flash")
    assert memory.allowlist == ("memory_write", "memory_forget")
    assert (subtask.limits.max_turns, subtask.limits.timeout_s) == (15, 300)
    assert not any(p.model.thinking for p in catalog.all())


def test_users_may_name_chat_profiles_and_operators_all() -> None:
    catalog = ProfileCatalog()
    assert [p.name for p in catalog.visible_to(UserRole.USER)] == ["chat_default"]
    assert catalog.visible_to(UserRole.OPERATOR) == catalog.all()


def test_a_name_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound):
        ProfileCatalog().get("nobody")


def put(folder: Path, file: str, document: object) -> None:
    (folder / file).write_text(json.dumps(document))


def test_the_operators_folder_adds_and_replaces(tmp_path: Path) -> None:
    put(tmp_path, "small.json", SMALL)
    put(tmp_path, "chat_default.json", {**SMALL, "name": "chat_default"})
    catalog = ProfileCatalog(tmp_path)
    assert catalog.get("small").model.name == "m"
    assert catalog.get("chat_default").model.name == "m"
    assert len(catalog.all()) == 4


@pytest.mark.parametrize(
    ("file", "change", "named"),
    [
        ("small.json", {"limits": {"max_turns": -1}}, "small.json: limits.max_turns"),
        ("other.json", {}, "other.json: name"),
        ("small.json", {"prompt": "no-such"}, "small.json: prompt"),
    ],
)
def test_a_bad_file_is_named_when_the_process_starts(
    tmp_path: Path, file: str, change: dict[str, Any], named: str
) -> None:
    put(tmp_path, file, {**SMALL, **change})
    with pytest.raises(InvalidInput) as raised:
        ProfileCatalog(tmp_path)
    assert raised.value.field == named


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a folder"):
        ProfileCatalog(tmp_path / "nowhere")
