"""A memory run's model call: what it is shown, and what becomes of its answer."""

import json
from collections import OrderedDict
from dataclasses import dataclass, replace
from uuid import UUID
from zoneinfo import ZoneInfo

import structlog

from activities.context import Bounds
from adapters import tokens
from adapters.extraction import FORM, InvalidOutput, parse
from adapters.postgres.reading import ReadingStore
from adapters.prompts import PROMPTS
from adapters.settings import Settings
from adapters.tools.registry import ToolContext
from domain import extraction
from domain.context import FILL, LayerSeen, Prepared, Seen
from domain.extraction import Cited, Entry, Fitted
from domain.fences import CONTEXT_FENCE, fenced
from domain.messages import FinishReason, Message, ModelRequest, Role
from domain.profiles import Executor
from domain.text import clean
from domain.tools import ToolCall

_REMEMBERED = 200  # runs whose references are kept in memory
_ENTRY_TOKENS = 40  # what the frame of an entry takes: reference, role, instant
_SPARE_TOKENS = 1_000  # for the note, the marks and what a repair adds beside the first answer
_ANSWER_SHOWN = 8_000  # characters of an invalid answer that the repair call shows
_ONLY_JSON = "Answer with the JSON object and nothing else."


@dataclass(frozen=True, slots=True)
class Extracted:
    """What an answer came to: calls of the memory tools, or why it is invalid."""

    calls: tuple[ToolCall, ...] = ()
    invalid: str | None = None


_log = structlog.get_logger(__name__)


class ExtractionBuilder:
    def __init__(self, *, store: ReadingStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._cited: OrderedDict[UUID, Cited] = OrderedDict()

    async def build(self, bounds: Bounds, model: str, turn: int) -> Prepared:
        """The first call shows the window; a later one the invalid answer and its error, too."""
        asked, entries = await self._window(bounds)
        prompt = PROMPTS[bounds.profile.prompt]
        room = int(self._settings.model_context_tokens * FILL) - _SPARE_TOKENS
        room -= tokens.count(prompt.text) + tokens.count(asked)
        fitted = extraction.fit_window(entries, room=room, measure=_entry_tokens)
        users = {e.evidence.message_id for e in entries if e.role is Role.USER}
        if lost := users.intersection((*fitted.shortened, *fitted.dropped)):
            _log.warning("window_shortened", run_key=str(bounds.run.key), messages=len(lost))
        messages = (
            *await self._said(bounds, asked, fitted),
            *(await self._repair(bounds, turn - 1) if turn > 1 else ()),
        )
        request = ModelRequest(
            model=model,
            system=prompt.text,
            messages=messages,
            max_output_tokens=bounds.profile.limits.max_output_tokens,
            thinking=bounds.profile.model.thinking,
            output=FORM,
        )
        return Prepared(request, _seen(prompt.text, prompt.digest, messages, fitted))

    async def read(
        self, bounds: Bounds, turn: int, text: str, finish_reason: str | None = None
    ) -> Extracted:
        """The answer of a turn as tool calls. The same text always comes to the same."""
        try:
            operations = parse(text)
        except InvalidOutput as error:
            cut = finish_reason == FinishReason.LENGTH
            return Extracted(invalid="the answer was cut off" if cut else str(error))
        references = (await self._references(bounds)).references
        calls = extraction.tool_calls(operations, references, bounds.run.key, turn)
        return Extracted(tuple(replace(c, arguments=clean(c.arguments)) for c in calls))

    async def bind(self, bounds: Bounds, context: ToolContext) -> ToolContext:
        """What a tool call of a memory run may rest on; other runs' calls stay as they are."""
        if bounds.profile.executor is not Executor.MEMORY:
            return context
        cited = await self._references(bounds)
        return replace(
            context,
            admitted=cited.admitted,
            references=cited.references,
            orders=cited.orders,
            takeovers=cited.takeovers,
        )

    async def _references(self, bounds: Bounds) -> Cited:
        """Read once per run and process: a window never changes."""
        key = bounds.run.key
        if (cited := self._cited.get(key)) is None:
            _, entries = await self._window(bounds)
            cited = self._cited[key] = extraction.cited(entries)
            if len(self._cited) > _REMEMBERED:
                self._cited.popitem(last=False)
        return cited

    async def _window(self, bounds: Bounds) -> tuple[str, tuple[Entry, ...]]:
        """What the run is asked to do, and what it reads.

        A run that was given no window is a request in a conversation: it reads that conversation
        up to and with the request, which is then something to read like the rest.
        """
        run = bounds.run
        asked, through = await self._store.asked(run.key)
        if run.request.window:
            said = await self._store.parts(run.owner_id, run.request.window)
            return asked, extraction.entries_of(said)
        said = await self._store.before(
            run.owner_id, run.session_key, through, bounds.profile.window_user_messages
        )
        return "", extraction.entries_of(said)

    async def _said(self, bounds: Bounds, asked: str, fitted: Fitted) -> tuple[Message, ...]:
        run, zone = bounds.run, ZoneInfo(bounds.run.timezone)
        today = run.began_at.astimezone(zone).date()
        about = [
            f"Today is {today:%A}, {today.isoformat()} (time zone {run.timezone}).",
            f"The user's locale is {run.locale}.",
        ]
        text = "\n".join(entry.text for entry in fitted.entries)
        if keys := extraction.related_keys(await self._store.keys(run.owner_id), text):
            about.append(f"Keys in use: {json.dumps(keys, ensure_ascii=False)}")
        window = extraction.rendered(fitted.entries, zone)
        body = "\n\n".join(part for part in (asked, window, _ONLY_JSON) if part)
        return (
            Message(CONTEXT_FENCE, Role.USER, fenced(CONTEXT_FENCE, "\n".join(about))),
            Message(extraction.WINDOW_FENCE, Role.USER, body),
        )

    async def _repair(self, bounds: Bounds, turn: int) -> tuple[Message, ...]:
        answer, finish_reason = await self._store.answer(bounds.run.key, turn)
        read = await self.read(bounds, turn, answer, finish_reason)
        invalid = read.invalid or "it is not in the form"
        return (
            Message("answer", Role.ASSISTANT, answer[:_ANSWER_SHOWN]),
            Message("repair", Role.USER, f"That answer is invalid: {invalid}\n\n{_ONLY_JSON}"),
        )


def _entry_tokens(entry: Entry) -> int:
    return tokens.count(entry.text) + _ENTRY_TOKENS


def _seen(prompt: str, digest: str, messages: tuple[Message, ...], fitted: Fitted) -> Seen:
    size = tokens.count(prompt)
    return Seen(
        message_ids=tuple(entry.evidence.message_id for entry in fitted.entries),
        tool_names=(),
        layers=(LayerSeen("prompt", digest, size),),
        system_tokens=size,
        tool_tokens=0,
        message_tokens=sum(tokens.count(message.content) for message in messages),
        shortened=fitted.shortened,
        dropped=fitted.dropped,
    )
