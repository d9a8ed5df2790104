"""The configuration page and the example file list exactly what Settings has."""

import re
from pathlib import Path

import pytest
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from adapters.settings import COMMAND_LINE, PREFIX, Settings, SettingsError, load

ROOT = Path(__file__).parent.parent
FIELDS = {PREFIX + name.upper(): field for name, field in Settings.model_fields.items()}
REQUIRED = {"VARVE_DATABASE_URL": "postgresql://u@h/d", "VARVE_REDIS_URL": "redis://h/0"}


def default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None:
        return "unset"
    return f"`{value}`" if str(value) else "empty"


def test_the_page_lists_every_variable_with_its_default_and_meaning() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    rows = re.findall(r"^\| `(VARVE_\w+)` \| (.+?) \| (.+) \|$", page, re.MULTILINE)
    expected = [(name, default(field), field.description) for name, field in FIELDS.items()]
    assert rows == expected


def test_the_page_lists_the_variables_of_the_command_line() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    rows = re.findall(r"^\| `(VARVE_\w+)` \| ([^|]+) \|$", page, re.MULTILINE)
    assert dict(rows) == COMMAND_LINE


def test_the_example_file_lists_every_variable_and_sets_none() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    listed = [line[2:].partition("=")[0] for line in lines if line.startswith("# VARVE_")]
    assert listed == list(FIELDS)
    assert not [line for line in lines if line and not line.startswith("#")]


def test_a_misspelt_variable_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="VARVE_DATABSE_URL"):
        load({**REQUIRED, "VARVE_DATABSE_URL": "x"})


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(SettingsError, match="VARVE_REDIS_URL"):
        load({"VARVE_DATABASE_URL": "postgresql://u@h/d"})


def test_a_value_that_does_not_fit_is_named() -> None:
    with pytest.raises(SettingsError, match="VARVE_API_PORT"):
        load({**REQUIRED, "VARVE_API_PORT": "eighty"})


def test_other_variables_are_nobody_s_business() -> None:
    assert load({**REQUIRED, "PATH": "/bin"}).redis_url == "redis://h/0"
