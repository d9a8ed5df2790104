"""OpenAI's chat completions as requests for runs: what is read, and what comes back."""

import hashlib
import json
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from api.fields import Text
from api.problems import Problem, invalid
from api.run_input import MAX_CONTEXT_TEXT, MAX_TEXT
from api.state import Services
from domain.events import (
    RunFinished,
    RunPaused,
    RunStatus,
    TextDelta,
    TurnCompleted,
    TurnStarted,
)
from domain.messages import Message, Role, Usage
from domain.runs import Run
from domain.text import clean

MAX_MESSAGES = 2_000
DEFAULT_MODEL = "varve"
_REFUSED = {
    "tools": "Client-side tools are not supported: the server's own run inside.",
    "functions": "Client-side tools are not supported: the server's own run inside.",
    "logprobs": "Not supported.",
    "audio": "Not supported.",
    "prediction": "Not supported.",
    "web_search_options": "Not supported.",
}


class ChatMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Any = None


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class ChatBody(BaseModel):
    """What is read of a request. Sampling parameters are the profile's, so they are ignored."""

    model_config = ConfigDict(extra="allow")

    model: Text = Field(DEFAULT_MODEL, min_length=1, max_length=200)
    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool = False
    stream_options: StreamOptions | None = None
    user: Text | None = Field(None, min_length=1, max_length=200)
    n: int | None = None
    response_format: dict[str, Any] | None = None

    @property
    def profile(self) -> str | None:
        return None if self.model == DEFAULT_MODEL else self.model


@dataclass(frozen=True, slots=True)
class Conversation:
    """A request's messages: what was said before, what is said now, and what the app adds."""

    before: tuple[tuple[Role, str], ...]
    now: tuple[str, ...]
    context: tuple[tuple[str, str], ...]


def check(body: ChatBody) -> None:
    """Raises a 422 for what can't be done rather than leaving it out."""
    if body.n not in (None, 1):
        raise invalid("n", "One answer at a time.")
    for name, why in _REFUSED.items():
        if (body.model_extra or {}).get(name):
            raise invalid(name, why)
    if body.response_format is not None and body.response_format.get("type") != "text":
        raise invalid("response_format", "Answers are text.")


def conversation_of(body: ChatBody) -> Conversation:
    """Tool messages are the client's own business and left out. Raises a 422."""
    texts = [
        (message.role, _text(message.content, f"messages.{place}.content"))
        for place, message in enumerate(body.messages)
    ]
    context = tuple(
        ("instructions of the app", text[:MAX_CONTEXT_TEXT])
        for role, text in texts
        if role in ("system", "developer") and text
    )
    said = [(Role(role), text) for role, text in texts if role in ("user", "assistant") and text]
    place = len(said)
    while place > 0 and said[place - 1][0] is Role.USER:
        place -= 1
    if place == len(said):
        raise invalid("messages", "The last message must be a message of the user.")
    return Conversation(tuple(said[:place]), tuple(text for _, text in said[place:]), context)


def _text(content: Any, path: str) -> str:
    if content is None:
        return ""
    if isinstance(content, list):
        parts = [cast("dict[str, Any]", part) for part in cast("list[Any]", content)]
        if any(part.get("type") != "text" for part in parts):
            raise invalid(path, "Only parts of type text are supported.")
        content = "\n".join(str(part.get("text", "")) for part in parts)
    if not isinstance(content, str):
        raise invalid(path, "A text, or a list of text parts.")
    if len(content) > MAX_TEXT:
        raise invalid(path, f"At most {MAX_TEXT} characters, not {len(content)}.")
    return clean(content).strip()


def fingerprint(said: Sequence[tuple[Role, str]]) -> bytes:
    """Of a conversation, as both sides know it."""
    document = json.dumps([[role.value, text.strip()] for role, text in said])
    return hashlib.sha256(document.encode()).digest()


def messages(id: str, said: Sequence[tuple[Role, str]], first: int = 0) -> tuple[Message, ...]:
    return tuple(
        Message(f"{id}-{place}", role, text) for place, (role, text) in enumerate(said, first)
    )


@dataclass(slots=True)
class Spoken:
    """What a run says as one text, turns being paragraphs. `told`: to a client that reads along,
    which can't take back what an attempt said that died; `text`: what holds."""

    text: str = ""
    told: str = ""
    finish: str = "stop"
    usage: Usage = field(default_factory=Usage)
    _before: str = ""  # of `told`, when the turn began
    _turn: str = ""

    def take(self, event: object) -> str:
        """The piece that this event adds to what is told."""
        match event:
            case TurnStarted():
                self._turn = ""
                self._before = self._before if event.supersedes else self.told
            case TextDelta() if event.end > len(self._turn):
                self._turn += event.text[len(self._turn) - (event.end - len(event.text)) :]
                return self._grown(_paragraph(self._before, self._turn))
            case TurnCompleted():
                self.finish = _finish(event.finish_reason)
                self.text = _paragraph(self.text, event.text)
                return self._whole(event.text)
            case RunFinished():
                self.usage = event.usage
            case _:
                pass
        return ""

    def add(self, text: str) -> str:
        """A paragraph that is no turn's."""
        self.text = _paragraph(self.text, text)
        return self._whole(text)

    def _grown(self, whole: str) -> str:
        if not whole.startswith(self.told):
            return ""  # of a second attempt that says something else, or not as much yet
        piece, self.told = whole[len(self.told) :], whole
        return piece

    def _whole(self, turn: str) -> str:
        """The rest of a turn; all of it, where it is not what was told of it."""
        whole = _paragraph(self._before, turn)
        if not whole.startswith(self.told):
            whole = _paragraph(self.told, turn)
        piece = self._grown(whole)
        self._before = self.told
        return piece


def _paragraph(before: str, text: str) -> str:
    return f"{before}\n\n{text}" if before and text else before + text


def _finish(reason: str) -> str:
    return reason if reason in ("length", "content_filter") else "stop"


async def heard(services: Services, run: Run, spoken: Spoken) -> AsyncGenerator[str]:
    """The pieces of a run's text until it is over, or asks a person. Raises Problem if it fails."""
    async with services.live.reading(run.key, ended=run.status.ended) as items:
        async for item in items:
            if item is None:
                yield ""
                continue
            if piece := spoken.take(item.event):
                yield piece
            if isinstance(item.event, RunPaused):
                yield await _questions(services, item.event, spoken)
                return
            if isinstance(item.event, RunFinished):
                if item.event.status is RunStatus.FAILED:
                    code = (item.event.code or "internal").replace("_", "-")
                    raise Problem(code, 502, item.event.message or "The run failed.")
                return


async def _questions(services: Services, paused: RunPaused, spoken: Spoken) -> str:
    """What people are asked, as the end of the text."""
    asked = await services.checkpoints.by_ids(paused.checkpoint_ids)
    told = "\n\n".join(
        f"{each.title}: {each.body}\n(answer in the inbox: checkpoint {each.id})" for each in asked
    )
    spoken.usage = paused.usage
    return spoken.add(told)


def usage_of(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def completion(run_id: str, model: str, spoken: Spoken) -> dict[str, Any]:
    return {
        "id": run_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": spoken.text, "refusal": None},
                "logprobs": None,
                "finish_reason": spoken.finish,
            }
        ],
        "usage": usage_of(spoken.usage),
    }


def chunk(
    run_id: str, model: str, created: int, delta: dict[str, Any], finish: str | None = None
) -> dict[str, Any]:
    return {
        "id": run_id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
    }
