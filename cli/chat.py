"""`varve chat`: talk to an agent in the terminal, token by token."""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any
from uuid import uuid4

import typer

from cli import where
from cli.asking import put
from cli.client import AgentClient, Frame
from cli.output import FAILED, INTERRUPTED, aside, console, failures, show_json

app = typer.Typer()

WAITING = 3
"""Exit code: the run waits for a person."""
SHOWN = 300  # characters of a tool's arguments or result


@dataclass(slots=True)
class Answer:
    """What one run brought, gathered from its frames."""

    run_id: str
    text: str = ""
    tools: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    error: str | None = None
    outcome: str | None = None
    questions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def exit_code(self) -> int:
        if self.questions:
            return WAITING
        if self.outcome == "cancelled":
            return INTERRUPTED
        return FAILED if self.error else 0


@app.command()
def chat(
    session: Annotated[str | None, typer.Option(help="Go on with this session.")] = None,
    message: Annotated[str | None, typer.Option(help="Say this, show the answer, end.")] = None,
    profile: Annotated[str | None, typer.Option(help="Execution profile.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --message: as JSON.")] = False,
    state: where.StateOption = where.DEFAULT_STATE,
) -> None:
    """Talk to an agent. Ctrl-C stops an answer; at the prompt, Ctrl-C or Ctrl-D ends."""
    if as_json and message is None:
        raise typer.BadParameter("--json needs --message")
    with failures():
        url, key = where.api(state)
        thread = session or f"chat-{uuid4().hex[:12]}"
        ask = put if message is None else None
        talk = Talk(url, key, thread, profile, _quiet if as_json else _shower(), ask)
        if message is None:
            _converse(talk)
            return
        answer = asyncio.run(talk.say(message))
        if as_json:
            show_json(_as_json(thread, answer))
        raise typer.Exit(answer.exit_code)


class Talk:
    """One session with the API; `show` gets every frame as it arrives."""

    def __init__(
        self,
        url: str,
        key: str,
        thread: str,
        profile: str | None,
        show: Callable[[Frame], None],
        ask: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> None:
        self.thread = thread
        self._url = url
        self._key = key
        self._profile = profile
        self._show = show
        self._ask = ask

    async def say(self, text: str) -> Answer:
        """Post a message and follow its run. Ctrl-C asks the run to stop; twice leaves it."""
        answer = Answer(run_id=f"run-{uuid4().hex[:16]}")
        async with AgentClient(self._url, self._key) as client:
            following = asyncio.create_task(self._follow(client, text, answer))
            _on_interrupt(client, answer.run_id, following)
            try:
                await following
            except asyncio.CancelledError:
                answer.outcome = "cancelled"
            finally:
                with suppress(NotImplementedError):
                    asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        return answer

    async def _follow(self, client: AgentClient, text: str, answer: Answer) -> None:
        """To the end. With somebody at the terminal the questions of the run are put to them."""
        frames = client.run(self.thread, text, run_id=answer.run_id, profile=self._profile)
        await self._gather(frames, answer)
        while answer.questions and self._ask is not None:
            entries = [await asyncio.to_thread(self._ask, each) for each in answer.questions]
            answer.questions = []
            run_id = f"run-{uuid4().hex[:16]}"
            await self._gather(client.resume(self.thread, entries, run_id=run_id), answer)

    async def _gather(self, frames: AsyncGenerator[Frame], answer: Answer) -> None:
        async with aclosing(frames):
            async for frame in frames:
                gather(answer, frame)
                self._show(frame)


def _on_interrupt(client: AgentClient, run_id: str, following: "asyncio.Task[None]") -> None:
    stopping: list[asyncio.Task[None]] = []

    def stop() -> None:
        if stopping:
            following.cancel()
            return
        aside.print("\nStopping; Ctrl-C again leaves without waiting", style="dim")
        stopping.append(asyncio.create_task(client.interrupt(run_id)))

    with suppress(NotImplementedError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop)


def gather(answer: Answer, frame: Frame) -> None:
    """Take from a frame what an answer keeps."""
    event = frame.event
    match frame.type:
        case "TEXT_MESSAGE_START":
            answer.text = ""  # the last message of a run is its answer
        case "TEXT_MESSAGE_CONTENT":
            answer.text += event["delta"]
        case "TOOL_CALL_START":
            answer.tools.append({"id": event["toolCallId"], "name": event["toolCallName"]})
        case "TOOL_CALL_RESULT":
            for tool in answer.tools:
                if tool["id"] == event["toolCallId"]:
                    tool["result"] = event["content"]
        case "RUN_ERROR":
            answer.error = event["message"]
            answer.outcome = "cancelled" if event.get("code") == "cancelled" else None
        case "RUN_FINISHED":
            outcome: Any = event.get("outcome")
            answer.outcome = outcome.get("type") if isinstance(outcome, dict) else outcome
            if answer.outcome == "interrupt":
                answer.questions = outcome["interrupts"]
        case _:
            pass


def _shower() -> Callable[[Frame], None]:
    """Shows frames in the terminal; remembers which tool call an argument belongs to."""
    names: dict[str, str] = {}

    def show(frame: Frame) -> None:
        event = frame.event
        match frame.type:
            case "TEXT_MESSAGE_CONTENT":
                console.print(event["delta"], end="", markup=False, soft_wrap=True)
            case "TEXT_MESSAGE_END":
                console.print()
            case "TOOL_CALL_START":
                names[event["toolCallId"]] = event["toolCallName"]
            case "TOOL_CALL_ARGS":
                _dim(f"→ {names.get(event['toolCallId'], 'tool')} {event['delta']}")
            case "TOOL_CALL_RESULT":
                _dim(f"← {event['content']}")
            case "RUN_ERROR":
                aside.print(event["message"], style="red", markup=False)
            case "RUN_FINISHED" if "outcome" in event:
                asked = event["outcome"].get("interrupts")
                _dim("(it waits for you: varve inbox list)" if asked else "(stopped)")
            case "CUSTOM" if event.get("name") == "varve.retry":
                _dim("\n(the answer is started again)")
            case _:
                pass

    return show


def _quiet(_frame: Frame) -> None:
    """Nothing is shown while it runs."""


def _dim(text: str) -> None:
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"
    aside.print(shown, style="dim", markup=False)


def _converse(talk: Talk) -> None:
    aside.print(f"Session {talk.thread}; Ctrl-D ends it, --session goes on with it", style="dim")
    while True:
        try:
            text = console.input("[bold]› [/bold]").strip()
        except (EOFError, KeyboardInterrupt):
            console.print()
            return
        if text:
            with suppress(typer.Exit), failures():
                asyncio.run(talk.say(text))


def _as_json(thread: str, answer: Answer) -> dict[str, Any]:
    return {
        "session": thread,
        "run_id": answer.run_id,
        "text": answer.text,
        "tools": answer.tools,
        "questions": answer.questions,
        "outcome": answer.outcome or ("failed" if answer.error else "success"),
        "error": answer.error,
    }
