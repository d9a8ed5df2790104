"""What a run's model is told from memory: looked for once per run and process."""

from collections import OrderedDict
from uuid import UUID

import asyncpg
import structlog

from adapters.postgres.frozen import RunContext
from adapters.postgres.messages import MessageStore
from adapters.postgres.notices import NoticeStore
from adapters.postgres.pool import LOST
from adapters.recall import Asked, Recall
from adapters.stream import EventStream
from domain.events import Notice
from domain.profiles import Executor, Profile
from domain.recall import NOTHING, Recalled, RecallStatus

MEMORY_NOTICE = "varve.memory"
_REMEMBERED = 2_000  # runs
_CHARACTERS = 2_000  # of what the user said; the rest is not looked for

_log = structlog.get_logger(__name__)


class Recollection:
    def __init__(
        self, *, recall: Recall, messages: MessageStore, notices: NoticeStore, stream: EventStream
    ) -> None:
        self._recall = recall
        self._messages = messages
        self._notices = notices
        self._stream = stream
        self._known: OrderedDict[UUID, Recalled] = OrderedDict()

    async def prepare(self, run: RunContext, profile: Profile) -> None:
        """Look, before a turn is opened, and tell the run's readers if memory is not whole.

        Whether to tell is not asked again for what is known: that was told.
        """
        if run.key in self._known:
            return
        recalled = await self.of(run, profile)
        if recalled.status is RecallStatus.OK:
            return
        notice = Notice(MEMORY_NOTICE, {"status": recalled.status})
        if recorded := await self._notices.once(run.key, notice):
            await self._stream.publish(run.key, [recorded])

    async def of(self, run: RunContext, profile: Profile) -> Recalled:
        """The facts for the run's own messages. A search that fails does not fail the run."""
        if profile.executor is not Executor.WORKER or not profile.memory.top_k:
            return NOTHING
        if (known := self._known.get(run.key)) is None:
            known = self._known[run.key] = await self._search(run, profile)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return known

    async def _search(self, run: RunContext, profile: Profile) -> Recalled:
        try:
            if not await self._recall.any(run.owner_id):
                return NOTHING
            said = await self._messages.texts(run.session_key, run.user_message_ids)
            recalled = await self._recall.search(
                Asked(
                    run.owner_id,
                    "\n".join(said)[-_CHARACTERS:],
                    limit=profile.memory.top_k,
                    min_confidence=profile.memory.min_confidence,
                    newest=False,
                )
            )
        except LOST:
            raise  # nothing else of the run would work either
        except asyncpg.PostgresError as error:
            _log.error("memory_unreadable", run_key=str(run.key), error=repr(error))
            return Recalled(status=RecallStatus.FAILED)
        if recalled.degraded:
            _log.error("memory_degraded", run_key=str(run.key))
        return recalled
