"""The answer of a memory run: its JSON form, and what is wrong with one that is not in it."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from domain.extraction import MAX_OPERATIONS, Forget, Operation, Write
from domain.facts import GLOBAL, MAX_EVIDENCE, MAX_KEY, MAX_TAG, MAX_TAGS, MAX_VALUE
from domain.messages import OutputForm

_LISTED_ERRORS = 5
_FENCED = re.compile(r"\s*```[a-zA-Z]*\s*\n(?P<inside>.*?)\n?\s*```\s*", re.DOTALL)
# What providers that hold a model to a schema don't know, or do without.
_UNKNOWN_TO_PROVIDERS = frozenset(
    {"$defs", "title", "description", "default", "discriminator"}
    | {"minLength", "maxLength", "maxItems"}
)


class InvalidOutput(ValueError):
    """An answer is not in the form; the text says why, in our words, without repeating it."""


Reference = Annotated[str, Field(max_length=200)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Write(_Part):
    op: Literal["write"]
    key: str = Field(min_length=1, max_length=MAX_KEY)
    value: str = Field(min_length=1, max_length=MAX_VALUE)
    tags: tuple[Annotated[str, Field(max_length=MAX_TAG)], ...] = Field((), max_length=MAX_TAGS)
    scope: str = Field(GLOBAL, max_length=100)
    confidence: float = Field(ge=0, le=1, allow_inf_nan=False)
    evidence: tuple[Reference, ...] = Field((), max_length=MAX_EVIDENCE)

    def operation(self) -> Operation:
        return Write(self.key, self.value, self.confidence, self.evidence, self.tags, self.scope)


class _Forget(_Part):
    op: Literal["forget"]
    key: str | None = Field(None, min_length=1, max_length=MAX_KEY)
    memory_id: str | None = Field(None, min_length=1, max_length=100)
    scope: str = Field(GLOBAL, max_length=100)
    reason: str = Field(min_length=1, max_length=500)
    evidence: tuple[Reference, ...] = Field((), max_length=MAX_EVIDENCE)

    @model_validator(mode="after")
    def one_name(self) -> "_Forget":
        if (self.key is None) == (self.memory_id is None):
            raise ValueError("give either key or memory_id")
        return self

    def operation(self) -> Operation:
        return Forget(self.reason, self.evidence, self.key, self.memory_id, self.scope)


class _Output(_Part):
    operations: tuple[Annotated[_Write | _Forget, Field(discriminator="op")], ...] = Field(
        max_length=MAX_OPERATIONS
    )


def parse(answer: str) -> tuple[Operation, ...]:
    """The operations in an answer, which may stand in a code fence. Raises InvalidOutput."""
    fenced = _FENCED.fullmatch(answer)
    text = fenced["inside"] if fenced else answer
    try:
        output = _Output.model_validate_json(text.strip().removeprefix("\ufeff"))
    except ValidationError as error:
        raise InvalidOutput(_explained(error)) from error
    return tuple(part.operation() for part in output.operations)


def _explained(error: ValidationError) -> str:
    wrong = error.errors(include_url=False, include_context=False, include_input=False)
    said = [_told(each["loc"], each["type"], each["msg"]) for each in wrong[:_LISTED_ERRORS]]
    more = len(wrong) - len(said)
    return "; ".join(said) + (f"; and {more} more" if more > 0 else "")


def _told(path: tuple[int | str, ...], kind: str, message: str) -> str:
    """One error. A field that does not belong there is not named, nor is a wrong `op`: those are
    the model's words, and this text becomes the reason of the run."""
    if kind == "json_invalid":
        return "it is not JSON"
    if kind == "extra_forbidden":
        path, message = path[:-1], "has a field that does not belong there"
    if kind == "union_tag_invalid":
        message = "op must be write or forget"
    where = ".".join(str(part) for part in path if part not in ("write", "forget"))
    return f"{where or 'the answer'}: {message}"


def _for_providers(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """A JSON Schema as strict providers take it: no references, every field required."""
    if isinstance(schema, list):
        return [_for_providers(each, definitions) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    given = cast("dict[str, Any]", schema)
    if reference := given.get("$ref"):
        return _for_providers(definitions[reference.rsplit("/", 1)[-1]], definitions)
    kept = {name: value for name, value in given.items() if name not in _UNKNOWN_TO_PROVIDERS}
    fields: dict[str, Any] | None = kept.pop("properties", None)
    out = {
        "anyOf" if name == "oneOf" else name: _for_providers(value, definitions)
        for name, value in kept.items()
    }
    if fields is not None:  # their names are no keywords
        out["properties"] = {n: _for_providers(each, definitions) for n, each in fields.items()}
        out["required"] = list(fields)
    return out


def _form() -> OutputForm:
    schema = _Output.model_json_schema()
    return OutputForm("memory_operations", _for_providers(schema, schema["$defs"]))


FORM = _form()
"""What the model is asked for. `parse` takes a little more: fields with a default may be absent."""
