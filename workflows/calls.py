"""The tool calls of one turn: side by side where they may, people asked where they must be."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from domain.approvals import YES
    from domain.checkpoints import Scenario, State
    from domain.desk import Held, Raised, Reviewed, Verdict
    from domain.runs import CallRef, TurnResult, waves
    from domain.tools import Denier
    from workflows.steps import Steps


async def carry_out(step: Steps, reply: TurnResult) -> int:
    """Every call has its result afterwards. Returns the size of all of them in tokens."""
    to_review = [call for call in reply.calls if call.review and call.refused_by is None]
    if not to_review:
        return await _in_waves(step, reply.message_id, reply.calls)
    reviewed = {each.call_id: each for each in await step.review(reply.message_id, to_review)}
    calls = [_judged(call, reviewed.get(call.call_id)) for call in reply.calls]
    asked = {id: each.raised for id, each in reviewed.items() if each.raised is not None}
    free = [call for call in calls if call.call_id not in asked]
    if not asked:
        return await _in_waves(step, reply.message_id, free)
    step.desk.add(tuple(asked.values()))
    alone = asyncio.Lock()

    async def all_of_them() -> int:
        sizes = await asyncio.gather(
            _free(step, reply.message_id, free, alone),
            *(
                _asked(step, reply.message_id, call, raised, alone)
                for call in calls
                if (raised := asked.get(call.call_id)) is not None
            ),
        )
        return sum(sizes)

    return await step.desk.attend(all_of_them())


def _judged(call: CallRef, reviewed: Reviewed | None) -> CallRef:
    refused = reviewed is not None and reviewed.verdict is Verdict.REFUSED
    return replace(call, refused_by=Denier.PERSON) if refused else call


async def _in_waves(step: Steps, message_id: str, calls: Sequence[CallRef]) -> int:
    tokens = 0
    for wave in waves(calls):
        tokens += sum(await asyncio.gather(*(step.tool_call(message_id, call) for call in wave)))
    return tokens


async def _free(step: Steps, message_id: str, calls: Sequence[CallRef], alone: asyncio.Lock) -> int:
    with step.desk.working():
        tokens = 0
        for wave in waves(calls):
            async with alone:
                run = (step.tool_call(message_id, call) for call in wave)
                tokens += sum(await asyncio.gather(*run))
        return tokens


async def _asked(
    step: Steps, message_id: str, call: CallRef, raised: Raised, alone: asyncio.Lock
) -> int:
    """Wait for people, then do as they say."""
    held = await step.desk.decided(raised.id)
    with step.desk.working():
        if held.scenario is not Scenario.HIGH_RISK:
            return await step.answered(message_id, call)
        if not _approved(held):
            return await step.tool_call(message_id, replace(call, refused_by=Denier.PERSON))
        if call.parallel_safe:
            return await step.tool_call(message_id, call)
        async with alone:
            return await step.tool_call(message_id, call)


def _approved(held: Held) -> bool:
    return held.state is State.ANSWERED and held.action in YES
