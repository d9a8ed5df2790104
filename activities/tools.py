"""Tool calls: authorized, run, recorded. A refusal is a result too."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID

from temporalio import activity

from activities.context import Bounds, ContextBuilder
from activities.errors import translated
from activities.extraction import ExtractionBuilder
from activities.model import heartbeats
from adapters import tokens
from adapters.postgres.checkpoints import AboutCall, CheckpointStore
from adapters.postgres.messages import MessageStore
from adapters.postgres.turns import TurnStore
from adapters.stream import EventStream
from adapters.tools.arguments import parsed
from adapters.tools.refusals import denied, failed, missing, refused
from adapters.tools.registry import Registry
from domain.answers import answer_result
from domain.approvals import REFUSED_BEFORE, YES, why_not
from domain.checkpoints import APPROVE_SESSION, EDIT, State
from domain.errors import NotFound
from domain.tools import Denier, ToolCall, ToolResult, ToolStatus, authorize


@dataclass(frozen=True, slots=True)
class ToolCallInput:
    """A call by reference: its arguments are in the message that made it."""

    run_key: UUID
    message_id: str
    call_id: str
    refused_by: Denier | None = None  # the verdict that the turn came to, if it was a refusal


@dataclass(frozen=True, slots=True)
class ToolFailureInput:
    """A call whose activity failed for good; `reason` is for the model to read."""

    run_key: UUID
    message_id: str
    call_id: str
    reason: str


class ToolActivities:
    def __init__(
        self,
        *,
        registry: Registry,
        turns: TurnStore,
        messages: MessageStore,
        context: ContextBuilder,
        extraction: ExtractionBuilder,
        checkpoints: CheckpointStore,
        stream: EventStream,
    ) -> None:
        self._registry = registry
        self._turns = turns
        self._messages = messages
        self._context = context
        self._extraction = extraction
        self._checkpoints = checkpoints
        self._stream = stream

    @activity.defn(name="tools.call")
    async def call(self, input: ToolCallInput) -> int:
        """Run a call that the lists admit. Returns the size of its result in tokens.

        The lists are asked again here, where the tool runs: this process may be another one, with
        a registry and a system list of its own.
        """
        with translated():
            bounds = await self._context.bounds(input.run_key)
            call = await self._find(bounds, input.message_id, input.call_id)
            where = self._context.tool_context(bounds, call)
            where = await self._extraction.bind(bounds, where)
            given = partial(self._checkpoints.secret, bounds.run.key, call.name)
            where = replace(where, secret=given)
            approved = await self._approved(bounds, call)
            if approved is None:
                reason = why_not(await self._checkpoints.of_call(bounds.run.key, call.id))
                return await self._finish(bounds, call, refused(call, reason), Denier.PERSON)
            async with heartbeats():
                result = await self._registry.dispatch(approved, bounds.lists, where)
            turned_down = result.status is ToolStatus.DENIED
            by = authorize(call.name, bounds.specs, bounds.lists) if turned_down else None
            return await self._finish(bounds, call, result, by)

    async def _approved(self, bounds: Bounds, call: ToolCall) -> ToolCall | None:
        """The call as people let it run; None if they have to and have not.

        Asked where the tool runs, whatever the run's workflow believes.
        """
        spec, listed = bounds.specs.get(call.name), bounds.profile.require_approval
        always = self._registry.asks_always(call.name, listed)
        if spec is None or not (spec.asks or always):
            return call
        asked = await self._checkpoints.of_call(bounds.run.key, call.id)
        if asked is not None:
            if asked.state is not State.ANSWERED or asked.action not in YES:
                return None
            if asked.action == EDIT:
                return replace(call, arguments=json.dumps(asked.input, ensure_ascii=False))
            return call
        if not always:
            return call
        about = AboutCall(call.id, call.name, parsed(call))
        granted = await self._checkpoints.decided(bounds.run.key, about) == APPROVE_SESSION
        return call if granted else None

    @activity.defn(name="tools.answered")
    async def answered(self, input: ToolCallInput) -> int:
        """Give a call that was a question to people what came of it."""
        with translated():
            bounds = await self._context.bounds(input.run_key)
            call = await self._find(bounds, input.message_id, input.call_id)
            asked = await self._checkpoints.of_call(bounds.run.key, call.id)
            if asked is None or asked.state.pending:
                raise NotFound(f"Call {call.id} has no answer.")
            content = json.dumps(answer_result(asked), ensure_ascii=False)
            return await self._finish(
                bounds, call, ToolResult(call.id, call.name, ToolStatus.OK, content)
            )

    @activity.defn(name="tools.refuse")
    async def refuse(self, input: ToolCallInput) -> int:
        """Record a call that one of the lists refuses: result for the model, row for the audit."""
        with translated():
            bounds = await self._context.bounds(input.run_key)
            call = await self._find(bounds, input.message_id, input.call_id)
            # What the turn refused stays refused, whatever this process would say.
            by = input.refused_by or authorize(call.name, bounds.specs, bounds.lists)
            by = by or Denier.SYSTEM
            return await self._finish(bounds, call, await self._refusal(bounds, call, by), by)

    async def _refusal(self, bounds: Bounds, call: ToolCall, by: Denier) -> ToolResult:
        if by is Denier.PERSON:
            asked = await self._checkpoints.of_call(bounds.run.key, call.id)
            return refused(call, REFUSED_BEFORE if asked is None else why_not(asked))
        return missing(call) if call.name not in bounds.specs else denied(call, by)

    @activity.defn(name="tools.fail")
    async def fail(self, input: ToolFailureInput) -> int:
        """Give a call whose activity failed for good its one result."""
        with translated():
            bounds = await self._context.bounds(input.run_key)
            call = await self._find(bounds, input.message_id, input.call_id)
            return await self._finish(bounds, call, failed(call, input.reason))

    async def _find(self, bounds: Bounds, message_id: str, call_id: str) -> ToolCall:
        message = await self._messages.get(bounds.run.session_key, message_id)
        for call in message.tool_calls if message else ():
            if call.id == call_id:
                return call
        raise NotFound(f"There is no tool call {call_id}.")

    async def _finish(
        self, bounds: Bounds, call: ToolCall, result: ToolResult, by: Denier | None = None
    ) -> int:
        event = await self._turns.finish_tool(bounds.run.key, result, _audit(call, result, by))
        if event is not None:
            await self._stream.publish(bounds.run.key, [event])
        return tokens.count(result.content)


def _audit(call: ToolCall, result: ToolResult, by: Denier | None) -> Mapping[str, Any]:
    """Who refused what, without the arguments themselves."""
    return {
        "call_id": call.id,
        "status": result.status,
        "refused_by": by,
        "request_digest": hashlib.sha256(call.arguments.encode()).hexdigest(),
    }
