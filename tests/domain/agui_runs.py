"""Made-up runs for the encoder's laws: any events a worker may write, and what a client makes of
the frames."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from domain import agui
from domain.agui_reader import Numbered, Reader, snapshot_through
from domain.agui_shapes import Frame
from domain.events import (
    DurableEvent,
    Notice,
    Recorded,
    RunFinished,
    RunStarted,
    RunStatus,
    TextDelta,
    ToolFinished,
    TurnCompleted,
    TurnStarted,
    position,
    text_position,
)
from domain.messages import Message, Role, Usage
from domain.tools import ToolCall, ToolStatus

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@dataclass
class MadeRun:
    """Events in the order they were written, and the conversation as the database had it."""

    items: list[Recorded] = field(default_factory=list[Recorded])
    conversation: list[Message] = field(
        default_factory=lambda: [Message("user_1", Role.USER, "hello", seq=1)]
    )
    seq: int = 0

    def write(self, event: DurableEvent) -> None:
        self.seq += 1
        self.items.append(Recorded(position(self.seq), 1_000 + len(self.items), event))

    def say(self, message_id: str, text: str, cuts: Iterable[int]) -> None:
        """Stream `text` as deltas that end at the given places."""
        out = 0
        for end in sorted({min(cut, len(text)) for cut in cuts} | {len(text)}):
            if end > out:
                delta = TextDelta(message_id, text[out:end], end)
                self.items.append(Recorded(text_position(self.seq, end), 1_000, delta))
                out = end

    def through(self, event: object) -> Sequence[Message]:
        last = snapshot_through(event)
        return self.conversation[:last] if last is not None else ()

    def frames(
        self, *, cursor: int = -1, lost: frozenset[int] = frozenset(), modern: bool = True
    ) -> list[Numbered]:
        """What a reader with this cursor gets when the deltas at `lost` never reach it."""
        reader, out = Reader(modern=modern, cursor=cursor), list[Numbered]()
        for place, item in enumerate(self.items):
            delta = isinstance(item.event, TextDelta)
            if delta and (place in lost or item.position <= cursor):
                continue
            reader, numbered = agui.encode(reader, item, self.through(item.event))
            out += numbered
        return out

    @property
    def deltas(self) -> list[int]:
        return [i for i, item in enumerate(self.items) if isinstance(item.event, TextDelta)]


@st.composite
def runs(draw: st.DrawFn) -> MadeRun:
    run = MadeRun()
    run.write(RunStarted("thread", "run", 1))
    turns = draw(st.integers(0, 3))
    for turn in range(1, turns + 1):
        _turn(draw, run, turn)
    if draw(st.booleans()):
        run.write(Notice("varve.budget", {"used": 1}))
    status = draw(st.sampled_from([s for s in RunStatus if s.ended]))
    if status is not RunStatus.COMPLETED and draw(st.booleans()):
        _attempt(draw, run, turns + 1, 1)  # it ended in the middle of a model call
    code = "rate_limit" if status is RunStatus.FAILED else None
    run.write(RunFinished(status, Usage(3, 4), code=code, message=None))
    return run


def _turn(draw: st.DrawFn, run: MadeRun, turn: int) -> None:
    attempts = draw(st.integers(1, 3))
    for attempt in range(1, attempts):
        _attempt(draw, run, turn, attempt)
    message_id, text = _attempt(draw, run, turn, attempts)
    text += draw(st.sampled_from(["", "tail that was never streamed"]))
    count = draw(st.integers(0, 2))
    calls = tuple(ToolCall(f"call_{turn}_{i}", "memory_search", '{"q":1}') for i in range(count))
    run.conversation.append(Message(message_id, Role.ASSISTANT, text, calls))
    run.write(TurnCompleted(turn, message_id, "worker", "stop", text, calls))
    for call in calls:
        _result(draw, run, call)


def _attempt(draw: st.DrawFn, run: MadeRun, turn: int, attempt: int) -> tuple[str, str]:
    message_id = f"msg_{turn}_{attempt}"
    before = f"msg_{turn}_{attempt - 1}" if attempt > 1 else None
    run.write(
        TurnStarted(turn, attempt, message_id, "worker", len(run.conversation), supersedes=before)
    )
    text = draw(texts)
    run.say(message_id, text, draw(st.lists(st.integers(1, 30), max_size=5)))
    return message_id, text


def _result(draw: st.DrawFn, run: MadeRun, call: ToolCall) -> None:
    status = draw(st.sampled_from(ToolStatus))
    content = draw(texts)
    event = ToolFinished(call.id, call.name, status, f"tool_{call.id}", None, content)
    run.conversation.append(Message(event.message_id, Role.TOOL, content, tool_call_id=call.id))
    run.write(event)


_NAMED_BY = {"TEXT_MESSAGE": "messageId", "TOOL_CALL": "toolCallId", "STEP": "stepName"}


@dataclass
class Client:
    """What an AG-UI client holds; applies frames as @ag-ui/client does."""

    messages: dict[str, Frame] = field(default_factory=dict[str, Frame])
    open: set[str] = field(default_factory=set[str])
    terminal: Frame | None = None

    def apply(self, frame: Frame) -> None:
        assert self.terminal is None, "a frame after the last one"
        kind, _, verb = frame["type"].rpartition("_")
        if kind in _NAMED_BY:
            self._track(f"{kind} {frame[_NAMED_BY[kind]]}", verb)
        match frame["type"]:
            case "MESSAGES_SNAPSHOT":
                self.messages = {m["id"]: dict(m) for m in frame["messages"]}
            case "TEXT_MESSAGE_START":
                self._message(frame["messageId"], "assistant")
            case "TEXT_MESSAGE_CONTENT":
                self.messages[frame["messageId"]]["content"] += frame["delta"]
            case "TOOL_CALL_START":
                parent = self._message(frame["parentMessageId"], "assistant")
                parent.setdefault("toolCalls", []).append(frame["toolCallId"])
            case "TOOL_CALL_RESULT":
                self._message(frame["messageId"], "tool")["content"] = frame["content"]
            case "RUN_FINISHED" | "RUN_ERROR":
                assert not self.open
                self.terminal = frame
            case _:
                pass

    def _track(self, what: str, verb: str) -> None:
        """Nothing is opened twice at once; only what is open goes on or ends."""
        match verb:
            case "START" | "STARTED":
                assert what not in self.open
                self.open.add(what)
            case "END" | "FINISHED":
                self.open.remove(what)
            case "RESULT":
                assert what not in self.open
            case _:
                assert what in self.open

    def _message(self, id: str, role: str) -> dict[str, Any]:
        return self.messages.setdefault(id, {"id": id, "role": role, "content": ""})


def client_of(numbered: Iterable[Numbered]) -> Client:
    client = Client()
    for one in numbered:
        client.apply(one.frame)
    return client
