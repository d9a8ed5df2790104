"""What the routes of jobs read, and what of it only this server can judge.

What a job may look like at all is in domain/job_rules.py; here is whether its tools and profile
exist, and whether this caller may use them.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, cast
from zoneinfo import ZoneInfo

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
)

from adapters import profile_format
from adapters.profiles import ProfileCatalog
from adapters.prompts import PROMPTS
from api.fields import Text
from api.problems import invalid
from domain.errors import InvalidInput
from domain.identity import Caller, User
from domain.jobs import (
    MAX_PROMPT,
    MAX_TITLE,
    MEMORY_PROFILE,
    JobChange,
    JobConfig,
    NewJob,
    ScheduleType,
    Timetable,
)
from domain.profiles import Executor
from domain.text import clean

_FIRST = datetime(2000, 1, 1, tzinfo=UTC)  # before it nobody has backfilled anything

Title = Annotated[Text, Field(description=f"1 to {MAX_TITLE} characters", max_length=10_000)]
Prompt = Annotated[Text, Field(description=f"1 to {MAX_PROMPT} characters")]
ToolNames = Annotated[list[Text], Field(max_length=500, description="Registered tools")]
RunAt = Annotated[
    Text,
    Field(
        max_length=200,
        description="HH:MM (daily, weekly), an instant with offset (once), five fields (cron)",
    ),
]
Zone = Annotated[Text, Field(max_length=200, description="IANA name")]
Weekday = Annotated[int, Field(strict=True, description="1 (Monday) to 7 (Sunday); weekly only")]


def _profile(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return cast(dict[str, Any], value)
    raise ValueError("The name of a profile, or a whole one.")


Whole = Annotated[
    Any,
    BeforeValidator(_profile),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]}),
    Field(description="The name of a profile, or a whole one"),
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ConfigBody(_Body):
    prompt: Prompt
    tools: ToolNames


class JobBody(_Body):
    """A job to be made."""

    title: Title
    schedule_type: ScheduleType = ScheduleType.DAILY
    run_at: RunAt | None = Field(None, description="Absent: 10:00, where that is a time")
    weekday: Weekday | None = None
    timezone: Zone | None = Field(None, description="Absent: the owner's")
    config: ConfigBody
    execution_profile: Whole = MEMORY_PROFILE

    def job(self, owner: User) -> NewJob:
        return NewJob(
            title=self.title,
            timetable=Timetable(
                self.schedule_type, self.run_at or "", self.timezone or owner.timezone, self.weekday
            ),
            config=JobConfig(self.config.prompt, tuple(self.config.tools)),
            profile=self.execution_profile,
        )


class _Patch(_Body):
    @field_validator("*", mode="before")
    @classmethod
    def given(cls, value: Any) -> Any:
        """Null is not "as it is": a member that stays is left out."""
        if value is None:
            raise ValueError("leave it out, or give a value")
        return value


class ConfigPatch(_Patch):
    prompt: Prompt | None = None
    tools: ToolNames | None = None


class JobPatch(_Patch):
    """What is to be different; the rest stays."""

    title: Title | None = None
    schedule_type: ScheduleType | None = None
    run_at: RunAt | None = None
    weekday: Weekday | None = None
    timezone: Zone | None = None
    config: ConfigPatch = ConfigPatch()
    execution_profile: Whole = None

    def change(self) -> JobChange:
        tools = self.config.tools
        return JobChange(
            title=self.title,
            type=self.schedule_type,
            run_at=self.run_at,
            timezone=self.timezone,
            weekday=self.weekday,
            prompt=self.config.prompt,
            tools=None if tools is None else tuple(tools),
            profile=self.execution_profile,
        )


class TriggerBody(_Body):
    again: bool = Field(False, description="Run a slot that has run once more")


class BackfillBody(_Body):
    start: Annotated[Text, Field(max_length=50, description="Date or instant, included")]
    end: Annotated[Text, Field(max_length=50, description="Date or instant, included")]
    again: bool = Field(False, description="Slots that have run too")

    def stretch(self, timezone: str, now: datetime) -> tuple[datetime, datetime]:
        """In UTC, ending now at the latest. Raises a 422 naming the member."""
        zone = ZoneInfo(timezone)
        start = _edge("start", self.start, zone, time.min)
        end = min(_edge("end", self.end, zone, time.max), now)
        if start < _FIRST:
            raise invalid("start", f"Not before {_FIRST.date()}.")
        if start > end:
            raise invalid("end", "The stretch ends before it starts, or has not begun.")
        return start, end


def _edge(name: str, text: str, zone: ZoneInfo, of_day: time) -> datetime:
    """An instant as it is; a date at this time in the zone."""
    try:
        if len(text) == len("2026-12-01"):
            day = date.fromisoformat(text)
            return datetime.combine(day, of_day, zone).astimezone(UTC)
        at = datetime.fromisoformat(text)
        if at.tzinfo is not None:
            return at.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise invalid(name, "A date, as 2026-12-01, or an instant with offset.")


def check_tools(names: Sequence[str] | None, registered: Mapping[str, object]) -> None:
    """Raises a 422 naming the first that is not registered."""
    for place, name in enumerate(names or ()):
        if name not in registered:
            raise invalid(f"config.tools.{place}", f"There is no tool called {name[:100]!r}.")


def check_profile(profile: Any, catalog: ProfileCatalog, who: Caller) -> None:
    """Raises a 422 for a profile that can't be read, or that this caller may not use.

    What a run may name, a job may; the memory profiles are for jobs to begin with.
    """
    if profile is None:
        return
    if isinstance(profile, str):
        usable = {p.name for p in catalog.visible_to(who.role)}
        usable |= {p.name for p in catalog.all() if p.executor is Executor.MEMORY}
        if profile not in usable:
            raise invalid("execution_profile", f"There is no profile {profile[:100]!r} for you.")
        return
    try:
        read = profile_format.load(profile)
    except (InvalidInput, RecursionError) as error:
        field = getattr(error, "field", "")
        path = f"execution_profile.{field}" if field else "execution_profile"
        raise invalid(path, str(error)) from error
    if read.prompt not in PROMPTS:
        message = f"There is no prompt {read.prompt!r}: {', '.join(PROMPTS)}."
        raise invalid("execution_profile.prompt", message)
    if "\\u0000" in profile_format.dump(read):
        raise invalid("execution_profile", "A profile without NUL.")
