"""How providers of the same API differ in what they want to be told. Pure."""

import re
from typing import Any

from adapters.settings import Dialect
from domain.messages import OutputForm

# OpenAI refuses an effort that a model does not know, and any effort on a model that never
# thinks. First match decides; None: leave it out.
_OPENAI_LEAST_EFFORT: tuple[tuple[re.Pattern[str], str | None], ...] = tuple(
    (re.compile(pattern), effort)
    for pattern, effort in (
        (r"chat-latest|-pro\b", None),  # these take one effort only, their default
        (r"^gpt-5(?:-mini|-nano)?(?:-\d{4}|$)", "minimal"),
        (r"^gpt-5-codex", "low"),
        (r"^gpt-(?:5\.\d|[6-9])", "none"),
        (r"^o\d", "low"),  # these cannot be kept from thinking, only from thinking long
    )
)


def thinking(dialect: Dialect, model: str, *, on: bool) -> dict[str, Any]:
    """The fields of the request body that switch the model's thinking on or off."""
    match dialect:
        case "dashscope":
            return {"enable_thinking": on}
        case "vllm":
            return {"chat_template_kwargs": {"enable_thinking": on}}
        case "deepseek":
            return {"thinking": {"type": "enabled" if on else "disabled"}}
        case "openai":
            effort = None if on else _least_effort(model)  # on: the model's own default
            return {} if effort is None else {"reasoning_effort": effort}
        case "plain":
            return {}


def _least_effort(model: str) -> str | None:
    return next((effort for name, effort in _OPENAI_LEAST_EFFORT if name.search(model)), None)


def output_limit(dialect: Dialect, tokens: int) -> dict[str, int]:
    """The field that bounds the answer. OpenAI's thinking models refuse the older name."""
    return {"max_completion_tokens" if dialect == "openai" else "max_tokens": tokens}


def output_form(dialect: Dialect, form: OutputForm) -> dict[str, Any]:
    """The field that holds the model to a form, as far as the provider knows how.

    Providers of `json_object` want the word JSON in the prompt. Where there is no such field the
    prompt alone has to do; the answer is validated either way.
    """
    match dialect:
        case "openai" | "vllm":
            named = {"name": form.name, "schema": dict(form.schema), "strict": True}
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        case "dashscope" | "deepseek":
            return {"response_format": {"type": "json_object"}}
        case "plain":
            return {}
