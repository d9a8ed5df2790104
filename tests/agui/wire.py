"""What every stream must be, whatever happened in its run."""

from typing import Any, cast

from ag_ui.core.events import Event
from ag_ui_validate.pytest_plugin import assert_valid_agui
from pydantic import BaseModel, TypeAdapter

from tests.fixtures_api import parse

_EVENT: TypeAdapter[BaseModel] = TypeAdapter(Event)


def frames(raw: str) -> list[dict[str, Any]]:
    """The frames of a stream that keeps the rules."""
    sent = parse(raw)
    ids = [one.id for one in sent if one.id is not None]
    assert ids == sorted(set(ids)), "ids do not strictly increase"
    found = [one.frame for one in sent]
    assert_valid_agui(found, max_warnings=0)
    for frame in found:
        event = _EVENT.validate_python(frame)
        assert extras(event) == []
        assert event.model_dump(mode="json", by_alias=True, exclude_none=True) == frame
    return found


def extras(value: object) -> list[str]:
    """Members that the protocol does not know, which its models let through."""
    if isinstance(value, list):
        return [name for item in cast(list[object], value) for name in extras(item)]
    if not isinstance(value, BaseModel):
        return []
    inside = [name for field in type(value).model_fields for name in extras(getattr(value, field))]
    return [*(value.model_extra or {}), *inside]


def of(found: list[dict[str, Any]], type: str) -> list[dict[str, Any]]:
    return [frame for frame in found if frame["type"] == type]
