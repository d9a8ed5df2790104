"""The state folder: one user at a time, secrets for its owner only, files whole or not at all."""

import stat
from pathlib import Path

import pytest

from cli import where
from cli.stack.errors import StackError
from cli.stack.state import Endpoints, State

ENDPOINTS = Endpoints(
    api_url="http://127.0.0.1:1",
    console_url=None,
    temporal_address="127.0.0.1:2",
    temporal_ui_url=None,
    database_url="postgresql://h/d",
    redis_url="redis://h",
    model_base_url="http://h/v1",
    demo_api_key="vk_1",
)


def test_a_second_user_of_the_folder_is_refused_in_words(tmp_path: Path) -> None:
    with (
        State(tmp_path).lock(),
        pytest.raises(StackError, match="in use by another `varve up`"),
        State(tmp_path).lock(),
    ):
        pass


def test_the_folder_is_free_again_afterwards(tmp_path: Path) -> None:
    with State(tmp_path).lock():
        pass
    with State(tmp_path).lock():
        pass


def test_the_folder_says_whether_it_is_held(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert not state.held()
    with state.lock():
        assert state.held()
    assert not state.held()


def test_files_with_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.passwords()
    state.keep_demo_key("vk_1")
    state.keep_endpoints(ENDPOINTS)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"passwords.json": 0o600, "demo_key": 0o600, "endpoints.json": 0o600}


def test_passwords_stay_what_they_were(tmp_path: Path) -> None:
    assert State(tmp_path).passwords() == State(tmp_path).passwords()


def test_endpoints_are_there_while_a_stack_runs(tmp_path: Path) -> None:
    state = State(tmp_path)
    assert state.endpoints() is None
    state.keep_endpoints(ENDPOINTS)
    assert state.endpoints() == ENDPOINTS
    state.forget_endpoints()
    assert state.endpoints() is None


def test_a_log_that_has_grown_long_is_put_aside(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.prepare()
    with state.log("api").open("wb") as log:
        log.truncate(20_000_000)
    state.prepare()
    assert not state.log("api").exists()
    assert (state.logs / "api.log.1").exists()


def test_the_environment_comes_before_the_running_stack(tmp_path: Path) -> None:
    State(tmp_path).keep_endpoints(ENDPOINTS)
    assert where.database_url(tmp_path, {}) == ENDPOINTS.database_url
    assert where.database_url(tmp_path, {"VARVE_DATABASE_URL": "mine"}) == "mine"
    assert where.api(tmp_path, {"VARVE_API_KEY": "mine"}) == (ENDPOINTS.api_url, "mine")


def test_without_a_stack_it_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="make up"):
        where.api(tmp_path, {})
