"""What must be true of every stream that leaves the API."""

from collections.abc import Iterator
from typing import Any, cast

from ag_ui.core import events as ag
from ag_ui_validate import create_validator
from pydantic import BaseModel, TypeAdapter

from tests.fixtures_api import parse

_event: TypeAdapter[Any] = TypeAdapter(ag.Event)


def check_stream(body: str) -> list[dict[str, Any]]:
    """The frames of a whole stream: strictly increasing ids, AG-UI and nothing else, conformant."""
    sent = parse(body)
    ids = [one.id for one in sent if one.id is not None]
    assert ids == sorted(set(ids))
    frames = [one.frame for one in sent]
    validator = create_validator()
    for frame in frames:
        for model in models(_event.validate_python(frame)):
            assert not model.model_extra, f"{type(model).__name__}: {model.model_extra}"
        validator.feed(frame)
    validator.finalize()
    assert [d for d in validator.report().diagnostics if d.severity == "error"] == []
    return frames


def models(value: object) -> Iterator[BaseModel]:
    """All models inside a value."""
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from models(getattr(value, name))
    elif isinstance(value, list):
        for item in cast(list[object], value):
            yield from models(item)
