"""The questions of a run to people: held, put, timed, answered. What may be when is domain/desk."""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from temporalio import workflow
from temporalio.exceptions import ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.checkpoints import (
        CheckpointActivities,
        Counted,
        CountInput,
        ExpireInput,
        PauseInput,
        PutInput,
        RemindInput,
    )
    from domain import desk
    from domain.checkpoints import AnswerInput, AnswerResult, Refusal, State, Via
    from domain.desk import Held, Manners, Raised

T = TypeVar("T")
Quick = Callable[[Callable[..., Any], Any, str], Coroutine[Any, Any, Any]]
"""Runs a step that touches only our database: (activity, input, summary)."""
Standing = Callable[[bool], None]
"""Told when the run comes to a standstill (True) and when it goes on (False)."""


class Desk:
    """Holds references only; what is asked and answered is in the database."""

    def __init__(
        self,
        run_key: UUID,
        quick: Quick,
        standing: Standing,
        put: Sequence[datetime] = (),
        waited_s: float = 0.0,
    ) -> None:
        self.manners = Manners()
        self._run_key = run_key
        self._quick = quick
        self._standing = standing
        self._held: dict[str, Held] = {}
        self._told: set[str] = set()  # of those that wait, people know
        self._deciding: set[str] = set()
        self._working = 0
        self._stirred = False
        self._leaving = False
        self._paused_at: datetime | None = None
        self.put = tuple(put)
        self.waited = timedelta(seconds=waited_s)

    def add(self, raised: Sequence[Raised]) -> None:
        """Hold these until people may be asked; twice is once."""
        for each in raised:
            held = Held(
                each.id,
                each.scenario,
                each.subject,
                each.batch,
                order=len(self._held),
                actions=each.actions,
                secret=each.secret,
            )
            self._held.setdefault(each.id, held)
        self._stirred = True

    @contextmanager
    def working(self) -> Generator[None]:
        """Inside, the run does something that needs nobody."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            self._stirred = True

    async def decided(self, id: str) -> Held:
        """Wait until this question is answered or its time is over."""
        await workflow.wait_condition(lambda: self._is_decided(id))
        return self._held[id]

    async def attend(self, work: Coroutine[Any, Any, T]) -> T:
        """Do this work, and meanwhile whatever the questions need."""
        doing, attending = asyncio.create_task(work), asyncio.create_task(self._attend())
        try:
            await workflow.wait_condition(lambda: doing.done() or attending.done())
            if not doing.done():
                attending.result()  # only a failure ends it
            self._leaving = self._stirred = True
            await attending  # what it has in hand is finished, not cut off
            self._leaving = False
            return await doing
        except (Exception, asyncio.CancelledError):  # not when the engine puts the workflow away
            doing.cancel()
            attending.cancel()
            await asyncio.gather(doing, attending, return_exceptions=True)
            raise

    async def hold(self) -> str | None:
        """Before the next step: put what may be put, and wait for what holds the run up.

        Returns why the run is to stop, if somebody said so.
        """
        while await self._due():
            pass
        if self._blocked():
            await self.attend(self._unblocked())
        stop = desk.stopped(tuple(self._held.values()))
        return None if stop is None else f"Stopped at a question: {stop.scenario.value}."

    async def _unblocked(self) -> None:
        await workflow.wait_condition(lambda: not self._blocked())

    def _blocked(self) -> bool:
        return bool(self._deciding) or any(held.blocks for held in self._held.values())

    def refusal(self, input: AnswerInput) -> Refusal | None:
        """Why these answers can't count; None if they can."""
        return desk.refusal(self._held, input.answers)

    async def answer(self, input: AnswerInput) -> AnswerResult:
        """Have answers count. Raises ApplicationError of a type of `Refused` if they can't."""
        if refusal := self.refusal(input):
            raise refused(refusal)
        before = {a.checkpoint_id: self._held[a.checkpoint_id] for a in input.answers}
        for answer in input.answers:  # at once: whoever comes second is told who was first
            self._held[answer.checkpoint_id] = replace(
                before[answer.checkpoint_id],
                state=State.ANSWERED,
                action=answer.action,
                by=input.by,
                via=input.via,
                at=workflow.now(),
            )
        step, what = CheckpointActivities.answer, CountInput(self._run_key, input)
        counted = await self._settled(step, what, before, "count the answer")
        if counted.refusal is not None:
            raise refused(counted.refusal)
        return AnswerResult(counted.run_id)

    async def _settled(
        self, step: Callable[..., Any], what: Any, before: dict[str, Held], summary: str
    ) -> Counted:
        """Decide these; what the database says afterwards is how they are.

        It may differ from what was meant: an earlier attempt of a step, of which this workflow
        does not know, can have been first.
        """
        self._deciding |= before.keys()
        decisions: dict[str, Held] = before
        try:
            counted: Counted = await self._quick(step, what, summary)
            decisions = {d.id: desk.decided(before[d.id], d) for d in counted.decisions}
        finally:
            self._held |= decisions
            self._deciding -= before.keys()
            self._stirred = True
        if counted.run_id is not None:
            self._go_on()
        return counted

    def pending(self) -> list[dict[str, Any]]:
        """What is open or waits, for operators."""
        return [
            {
                "id": held.id,
                "scenario": held.scenario.value,
                "state": held.state.value,
                "about": held.subject,
                "actions": list(held.actions),
                "deadline": held.deadline.isoformat() if held.deadline else None,
                "reminders": held.reminded,
            }
            for held in self._held.values()
            if held.state.pending
        ]

    def _is_decided(self, id: str) -> bool:
        return not self._held[id].state.pending and id not in self._deciding

    async def _attend(self) -> None:
        while not self._leaving:
            self._stirred = False
            if await self._due():
                continue
            now, held = workflow.now(), tuple(self._held.values())
            moment = desk.next_moment(held, self.put, self.manners, now)
            await self._stir(None if moment is None else max(moment - now, timedelta()))

    async def _stir(self, within: timedelta | None) -> None:
        try:
            await workflow.wait_condition(lambda: self._stirred, timeout=within)
        except TimeoutError:
            return

    async def _due(self) -> bool:
        """Do one thing that is due; whether there was one."""
        now = workflow.now()
        held = [h for h in self._held.values() if h.id not in self._deciding]
        if opened := desk.openable(held, self.put, self.manners, now):
            await self._open(opened, now)
        elif late := desk.expired(held, now):
            await self._expire(late)
        elif silent := desk.to_remind(held, now):
            await self._remind(silent[0])
        elif waiting := [h for h in held if h.state is State.QUEUED and h.id not in self._told]:
            await self._tell(waiting)
        elif self._stands_still():
            await self._pause()
        else:
            return False
        return True

    async def _open(self, waiting: Sequence[Held], now: datetime) -> None:
        times = len({held.batch for held in waiting})
        self.put = (*self.put, *([now] * times))[-self.manners.limit :]
        opened = [desk.opened(held, self.manners, now) for held in waiting]
        what = PutInput(self._run_key, tuple((held.id, held.deadline) for held in opened))
        await self._quick(CheckpointActivities.put, what, f"ask: {_scenarios(opened)}")
        self._held |= {held.id: held for held in opened}

    async def _tell(self, waiting: Sequence[Held]) -> None:
        ids = tuple(held.id for held in waiting)
        what = PutInput(self._run_key, (), ids)
        await self._quick(CheckpointActivities.put, what, f"ask later: {_scenarios(waiting)}")
        self._told |= set(ids)

    async def _remind(self, held: Held) -> None:
        fresh = desk.reminded(held)
        what = RemindInput(self._run_key, held.id, fresh.reminded)
        await self._quick(CheckpointActivities.remind, what, f"remind: {held.scenario}")
        if self._held[held.id].state is State.OPEN:
            self._held[held.id] = desk.reminded(self._held[held.id])

    async def _expire(self, late: Sequence[Held]) -> None:
        """From here on an answer comes too late."""
        before = {held.id: held for held in late}
        now = workflow.now()
        self._held |= {
            id: replace(held, state=State.EXPIRED, via=Via.TIMEOUT, at=now)
            for id, held in before.items()
        }
        step, what = CheckpointActivities.expire, ExpireInput(self._run_key, tuple(before))
        await self._settled(step, what, before, f"no answer: {_scenarios(late)}")

    def _stands_still(self) -> bool:
        asked = any(h.state is State.OPEN and h.blocks for h in self._held.values())
        return asked and self._paused_at is None and self._working == 0 and not self._deciding

    async def _pause(self) -> None:
        self._paused_at = workflow.now()
        self._standing(True)
        what = PauseInput(self._run_key)
        if not await self._quick(CheckpointActivities.pause, what, "wait for people"):
            self._go_on()  # somebody answered meanwhile

    def _go_on(self) -> None:
        if self._paused_at is None:
            return
        self.waited += workflow.now() - self._paused_at
        self._paused_at = None
        self._standing(False)


def refused(refusal: Refusal) -> ApplicationError:
    return ApplicationError(
        f"{refusal.type}: {refusal.checkpoint_id}", refusal, type=refusal.type, non_retryable=True
    )


def _scenarios(held: Sequence[Held]) -> str:
    return ", ".join(dict.fromkeys(each.scenario.value for each in held))
