"""What POST /runs reads of a RunAgentInput (docs/protocols/agent/run-agent-input.md).

The server's history is the truth: of `messages` only the new messages of the user at its end are
taken. What we can't do is refused by name rather than ignored.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, cast

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from api.fields import Text
from api.problems import invalid
from domain.identity import Caller
from domain.jobs import SCHEDULE_PREFIX
from domain.messages import Message, Role
from domain.profiles import SessionType
from domain.runs import NewRun, OnBusy, RunRequest
from domain.text import clean

MAX_ID = 200
MAX_TEXT = 200_000
MAX_CONTEXT = 50
MAX_CONTEXT_TEXT = 20_000
MAX_NEW_MESSAGES = 50
MAX_DELAY_S = 366 * 86_400
MAX_WAIT_S = 300

Id = Annotated[str, Field(min_length=1, max_length=MAX_ID)]
Name = Annotated[Text, Field(min_length=1, max_length=MAX_ID)]
ContextText = Annotated[Text, Field(max_length=MAX_CONTEXT_TEXT)]


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")


class InputMessage(_Shape):
    """Only messages of the user at the end of the list are read further than this."""

    id: str | None = None
    role: str
    content: Any = None


class ContextEntry(_Shape):
    description: ContextText
    value: ContextText


class WebhookOption(BaseModel):
    model_config = ConfigDict(extra="forbid")

    url: Annotated[str, Field(max_length=2_000, pattern=r"^https?://[^\s/]+")]


class VarveOptions(BaseModel):
    """`forwardedProps.varve`: what AG-UI has no member for. An unknown option is refused."""

    model_config = ConfigDict(extra="forbid")

    profile: Name | None = Field(
        None, description="Execution profile; must be one of GET /profiles"
    )
    tools: Annotated[list[Name], Field(max_length=500)] | None = Field(
        None, description="Tools this run may use at most; absent: all, []: none"
    )
    on_busy: OnBusy = Field(
        OnBusy.REJECT, description="What to do if a run is at work on the session"
    )
    start_at: AwareDatetime | None = Field(None, description="Not before then; a year at most")
    delay_s: float | None = Field(None, gt=0, le=MAX_DELAY_S, description="The same, from now")
    wait_s: float | None = Field(
        None, gt=0, le=MAX_WAIT_S, description="With JSON: answer when the run is over, or then"
    )

    stateless: bool = Field(
        False, description="Answer the messages as they are, and keep nothing for long"
    )
    webhook: WebhookOption | None = Field(None, description="Who is told of the run's end")

    @model_validator(mode="after")
    def one_time_is_enough(self) -> "VarveOptions":
        if self.start_at is not None and self.delay_s is not None:
            raise ValueError("start_at and delay_s exclude each other")
        if self.stateless and (self.start_at is not None or self.delay_s is not None):
            raise ValueError("a stateless run starts at once")
        return self


class RunInput(_Shape):
    """An AG-UI RunAgentInput, of either protocol generation."""

    thread_id: Id = Field(description="The session; made when it is new")
    run_id: Id = Field(description="The run's id, chosen by the client; posting it again attaches")
    protocol_version: Name | None = Field(None, description="`1.0` from clients that speak 1.0")
    messages: list[InputMessage] = Field(description="Ends with the new message of the user")
    tools: list[Any] | None = Field(
        None, description="Client-side tools: not supported, must be []"
    )
    context: Annotated[list[ContextEntry], Field(max_length=MAX_CONTEXT)] | None = None
    forwarded_props: Any = Field(None, description="`varve`: VarveOptions; the rest is ignored")
    resume: list[Any] | None = Field(
        None, description="Answers to the questions that the last run of the thread ended with"
    )
    state: Any = Field(None, description="Ignored: the agent has no shared state")

    @property
    def modern(self) -> bool:
        """Whether the client speaks 1.0 (or later)."""
        return self.protocol_version is not None

    @property
    def holds(self) -> tuple[str, ...]:
        """Ids of the messages that the client shows, in their order."""
        return tuple(message.id for message in self.messages if message.id)


def new_run(body: RunInput, who: Caller, idempotency_key: str | None = None) -> NewRun:
    """The run that is asked for. Raises a 422 naming the first member that can't be taken."""
    if body.tools:
        raise invalid("tools", "Client-side tools are not supported: send an empty list.")
    options = options_of(body)
    request = RunRequest(
        profile=options.profile,
        tools=None if options.tools is None else tuple(options.tools),
        context=tuple((entry.description, entry.value) for entry in body.context or ()),
        protocol=body.protocol_version,
        webhook=options.webhook.url if options.webhook else None,
    )
    return NewRun(
        owner_id=who.id,
        thread_id=own_identifier("threadId", body.thread_id),
        run_id=own_identifier("runId", body.run_id),
        request=request,
        messages=_new_messages(body.messages),
        on_busy=options.on_busy,
        not_before=_not_before(options),
        idempotency_key=idempotency_key,
        session_type=SessionType.STATELESS if options.stateless else SessionType.CHAT,
        history=_history(body) if options.stateless else (),
    )


def _history(body: RunInput) -> tuple[Message, ...]:
    """What was said before the user's messages at the end, by user and assistant, as it is."""
    place = len(body.messages)
    while place > 0 and body.messages[place - 1].role == Role.USER:
        place -= 1
    said: list[Message] = []
    for number, message in enumerate(body.messages[:place]):
        if message.role not in (Role.USER, Role.ASSISTANT) or message.content is None:
            continue
        path = f"messages.{number}"
        text = clean(_text(message.content, f"{path}.content"))
        id = identifier(f"{path}.id", message.id or f"{body.run_id}-{number}"[:MAX_ID])
        said.append(Message(id, Role(message.role), text[:MAX_TEXT]))
    return tuple(said)


def _not_before(options: VarveOptions) -> datetime | None:
    now = datetime.now(UTC)
    if options.delay_s is not None:
        return now + timedelta(seconds=options.delay_s)
    if options.start_at is None or options.start_at <= now:
        return None
    if options.start_at > now + timedelta(seconds=MAX_DELAY_S):
        raise invalid("forwardedProps.varve.start_at", "A year ahead at most.")
    return options.start_at.astimezone(UTC)


def options_of(body: RunInput) -> VarveOptions:
    """`forwardedProps.varve`. Raises a 422 naming the option that can't be taken."""
    forwarded = body.forwarded_props
    given = cast(dict[str, Any], forwarded).get("varve") if isinstance(forwarded, dict) else None
    try:
        options = VarveOptions.model_validate({} if given is None else given)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(["forwardedProps", "varve", *(str(part) for part in first["loc"])])
        raise invalid(path, first["msg"]) from error
    return options


def _new_messages(messages: Sequence[InputMessage]) -> tuple[Message, ...]:
    """The messages of the user at the end of the list, oldest first."""
    place = len(messages)
    while place > 0 and messages[place - 1].role == Role.USER:
        place -= 1
    if place == len(messages):
        raise invalid("messages", "The last message must be a message of the user.")
    if len(messages) - place > MAX_NEW_MESSAGES:
        raise invalid("messages", f"At most {MAX_NEW_MESSAGES} messages of the user at the end.")
    taken = [_user_message(messages[i], f"messages.{i}") for i in range(place, len(messages))]
    if len({message.id for message in taken}) < len(taken):
        raise invalid("messages", "Two messages have the same id.")
    return tuple(taken)


def _user_message(message: InputMessage, path: str) -> Message:
    text = clean(_text(message.content, f"{path}.content"))
    if not text.strip():
        raise invalid(f"{path}.content", "The message is empty.")
    if len(text) > MAX_TEXT:
        raise invalid(f"{path}.content", f"At most {MAX_TEXT} characters, not {len(text)}.")
    return Message(identifier(f"{path}.id", message.id or ""), Role.USER, text)


def _text(content: Any, path: str) -> str:
    """A string, or text parts in order. Other parts can't be read by any model here yet."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise invalid(path, "A text, or a list of text parts.")
    pieces: list[str] = []
    for place, part in enumerate(cast(list[Any], content)):
        known = cast(dict[str, Any], part) if isinstance(part, dict) else {}
        text = known.get("text")
        if known.get("type") != "text" or not isinstance(text, str):
            raise invalid(f"{path}.{place}", "Only parts of type text are supported.")
        pieces.append(text)
    return "\n".join(pieces)


def identifier(path: str, value: str) -> str:
    """An id is kept and echoed as it is, so one that can't be stored is refused."""
    if not 0 < len(value) <= MAX_ID:
        raise invalid(path, f"An id of 1 to {MAX_ID} characters.")
    if clean(value) != value:
        raise invalid(path, "An id without NUL and lone surrogates.")
    return value


def own_identifier(path: str, value: str) -> str:
    """An id of the client's choice, which the server's own jobs leave to clients."""
    if value.startswith(SCHEDULE_PREFIX):
        raise invalid(path, f"Ids that begin with {SCHEDULE_PREFIX!r} are those of jobs.")
    return identifier(path, value)


def check_profile(new: NewRun, visible: Sequence[str]) -> None:
    """Raises a 422 when the run asks for a profile that this caller may not use."""
    if new.request.profile is not None and new.request.profile not in visible:
        raise invalid(
            "forwardedProps.varve.profile",
            f"There is no profile {new.request.profile!r} for you; GET /profiles lists them.",
        )
