"""request_input: something that only a person has: a name, a colour, a file's name, a key."""

from typing import Literal, Self

from pydantic import Field, model_validator

from adapters.tools.registry import Arguments, Tool, declare
from adapters.tools.unasked import unasked
from domain.checkpoints import ANSWER, SKIP, Action, ActionType, Question, Scenario
from domain.tools import ToolKind

_DESCRIPTION = (
    "Ask a person for a value that the work needs and that nobody can guess: a name, a colour, "
    "the name of a file, a key or password. Name a default if the work can go on without. You "
    "never see a secret: only the tool that you name can read it."
)


class RequestInput(Arguments):
    name: str = Field(
        pattern=r"^[a-zA-Z][a-zA-Z0-9_]{0,59}$", description="What it is called, like brand_colour"
    )
    why: str = Field(min_length=1, max_length=2_000, description="What it is needed for")
    kind: Literal["text", "choice", "secret"] = "text"
    options: list[str] = Field(default=[], max_length=10, description="For choice")
    default: str | None = Field(
        None, max_length=2_000, description="What you take if nobody answers"
    )
    for_tool: str | None = Field(
        None, max_length=100, description="For secret: the tool that needs it"
    )

    @model_validator(mode="after")
    def what_the_kind_needs_is_there(self) -> Self:
        if self.kind == "choice" and not self.options:
            raise ValueError("kind choice needs options")
        if (self.kind == "secret") != (self.for_tool is not None):
            raise ValueError("for_tool belongs to kind secret, which needs it")
        if self.kind == "secret" and self.default is not None:
            raise ValueError("a secret has no default")
        return self


def request_input() -> Tool[RequestInput]:
    def ask(arguments: RequestInput) -> Question:
        choices = tuple(
            Action(f"option_{place}", label[:500])
            for place, label in enumerate(arguments.options, 1)
        )
        text = () if choices else (Action(ANSWER, "Give it", ActionType.TEXT_INPUT),)
        context = {"name": arguments.name, "kind": arguments.kind, "default": arguments.default}
        return Question(
            scenario=Scenario.MISSING_INPUT,
            title=f"Input needed: {arguments.name}",
            body=arguments.why,
            actions=(*choices, *text, Action(SKIP, "Go on without it")),
            context={name: value for name, value in context.items() if value is not None},
            secret_for=arguments.for_tool,
        )

    return declare(
        "request_input",
        _DESCRIPTION,
        RequestInput,
        unasked,
        kind=ToolKind.INTERACTION,
        parallel_safe=False,
        owner_scoped=False,
        ask=ask,
    )
