"""Prompts: complete when they are loaded, the same from run to run."""

import pytest

from adapters import tokens
from adapters.profiles import ProfileCatalog
from adapters.prompts import PROMPTS, PromptError, fill
from domain.fences import CONTEXT_FENCE, TOOL_FENCE


def test_placeholders_are_filled_by_name() -> None:
    assert fill("p", "Hello {{name}}, {{name}}!\n", {"name": "Ada"}).text == "Hello Ada, Ada!"


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("Hello {{nobody}}", "{{nobody}}"),
        ("Hello {{ name }}", "{{"),
        ("Hello {{name", "{{"),
        ("Hello name}}", "}}"),
        ("  \n", "empty"),
    ],
)
def test_a_placeholder_that_stays_open_is_an_error_at_load(template: str, told: str) -> None:
    with pytest.raises(PromptError) as raised:
        fill("greeting", template, {"name": "Ada"})
    assert "greeting" in str(raised.value)
    assert told in str(raised.value)


def test_a_filled_in_value_is_not_read_as_a_template() -> None:
    assert fill("p", "{{name}}", {"name": "{{other}}"}).text == "{{other}}"


def test_every_profile_has_its_prompt() -> None:
    assert {profile.prompt for profile in ProfileCatalog().all()} <= set(PROMPTS)


@pytest.mark.parametrize("name", sorted(PROMPTS))
def test_a_prompt_is_short_names_its_fences_and_knows_both_languages(name: str) -> None:
    text = PROMPTS[name].text
    assert tokens.count(text) < 600
    assert f"<{TOOL_FENCE}>" in text
    assert f"<{CONTEXT_FENCE}>" in text
    assert any("\u4e00" <= character <= "\u9fff" for character in text)


def test_a_digest_tells_one_text_from_another() -> None:
    digests = {prompt.digest for prompt in PROMPTS.values()}
    assert len(digests) == len(PROMPTS)
    assert fill("p", "same", {}).digest == fill("q", "same", {}).digest
