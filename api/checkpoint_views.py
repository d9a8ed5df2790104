"""What checkpoints look like over HTTP."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from api.views import View
from domain.checkpoints import (
    ActionType,
    Checkpoint,
    OnTimeout,
    Scenario,
    Severity,
    State,
    Via,
)


class ActionView(View):
    id: str
    label: str
    type: ActionType


class CheckpointView(View):
    id: UUID
    run_id: str
    thread_id: str
    scenario: Scenario
    severity: Severity
    blocking: bool = Field(description="False: a notice, nothing is asked")
    state: State
    title: str
    body: str
    context: dict[str, Any]
    actions: list[ActionView]
    tool_call_id: str | None
    tool: str | None
    arguments: dict[str, Any] | None = Field(description="Of the call that waits")
    secret: bool = Field(description="The answer is kept from everybody but one tool")
    deadline: datetime | None
    on_timeout: OnTimeout | None = Field(description="What holds if nobody answers")
    reminders: int
    created_at: datetime
    opened_at: datetime | None
    answered_at: datetime | None = Field(description="Or expired, or cancelled")
    answered_by: UUID | None
    via: Via | None
    action: str | None
    input: Any = Field(description="What came with the answer; never a secret")

    @classmethod
    def of(cls, asked: Checkpoint) -> "CheckpointView":
        return cls(
            id=asked.id,
            run_id=asked.run_id,
            thread_id=asked.thread_id,
            scenario=asked.scenario,
            severity=asked.severity,
            blocking=asked.blocking,
            state=asked.state,
            title=asked.title,
            body=asked.body,
            context=dict(asked.context),
            actions=[ActionView(id=a.id, label=a.label, type=a.type) for a in asked.actions],
            tool_call_id=asked.call_id,
            tool=asked.tool,
            arguments=None if asked.arguments is None else dict(asked.arguments),
            secret=asked.secret_for is not None,
            deadline=asked.deadline,
            on_timeout=asked.on_timeout,
            reminders=asked.reminders,
            created_at=asked.created_at,
            opened_at=asked.opened_at,
            answered_at=asked.answered_at,
            answered_by=asked.answered_by,
            via=asked.via,
            action=asked.action,
            input=asked.input,
        )
