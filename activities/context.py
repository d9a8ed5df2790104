"""What a run is allowed and what its model sees: loaded here, decided in `domain`."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

from activities.recollection import Recollection
from adapters import profile_format, tokens
from adapters.postgres.frozen import FrozenStore, RunContext
from adapters.postgres.messages import MessageStore
from adapters.prompts import PROMPTS
from adapters.settings import Settings
from adapters.tools.registry import Registry, ToolContext
from domain.context import NO_MORE_TURNS, ContextInput, Prepared, build
from domain.errors import NotFound
from domain.profiles import Profile, SessionType
from domain.tools import ToolCall, ToolLists, ToolSpec

_REMEMBERED = 2_000  # runs whose frozen part is kept in memory


@dataclass(frozen=True, slots=True)
class Bounds:
    """A run with its frozen profile and the three lists that bound its tools."""

    run: RunContext
    profile: Profile
    specs: Mapping[str, ToolSpec]
    lists: ToolLists

    def over_cost(self, micro_usd: int) -> bool:
        """Whether a run that has cost this much has spent its max_cost_usd."""
        most = self.profile.limits.max_cost_usd
        return most is not None and micro_usd >= Decimal(most) * 1_000_000

    def cost_step(self, micro_usd: int) -> int:
        """How often people are to be asked about a run that has cost this much: at the profile's
        ask_cost_usd, at twice that, at four times, …"""
        ask = self.profile.limits.ask_cost_usd
        if ask is None or micro_usd < Decimal(ask) * 1_000_000:
            return 0
        return int(micro_usd / (Decimal(ask) * 1_000_000)).bit_length()


class ContextBuilder:
    def __init__(
        self,
        *,
        frozen: FrozenStore,
        messages: MessageStore,
        registry: Registry,
        settings: Settings,
        recollection: Recollection,
    ) -> None:
        self._frozen = frozen
        self._messages = messages
        self._registry = registry
        self._settings = settings
        self._recollection = recollection
        self._known: OrderedDict[UUID, Bounds] = OrderedDict()

    async def bounds(self, run_key: UUID) -> Bounds:
        """Raises NotFound for a run that does not exist or has not begun.

        Nothing of it changes while the run lives, so it is read once per run and process.
        """
        if known := self._known.get(run_key):
            self._known.move_to_end(run_key)
            return known
        run = await self._frozen.load(run_key)
        if run.profile is None:
            raise NotFound(f"Run {run_key} has not begun.")
        return self.remember(run, profile_format.read(run.profile).profile)

    def remember(self, run: RunContext, profile: Profile) -> Bounds:
        """Keep what is known of a run that has begun: whoever just began it need not read it."""
        lists = ToolLists(run.request.tools, profile.tools, self._settings.system_tools)
        bounds = Bounds(run, profile, self._registry.specs, lists)
        self._known[run.key] = bounds
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return bounds

    async def recollect(self, bounds: Bounds) -> None:
        """Look into memory before a turn is opened; what is found is in its context."""
        await self._recollection.prepare(bounds.run, bounds.profile)

    async def build(self, bounds: Bounds, model: str, *, last: bool) -> Prepared:
        """Window, prompt and tools of the next model call; `last`: it gets no tools."""
        run, profile = bounds.run, bounds.profile
        include_hidden = run.session_type is SessionType.AUTOMATION
        messages = await self._messages.window(
            run.session_key, profile.window_user_messages, include_hidden=include_hidden
        )
        recalled = await self._recollection.of(run, profile)
        return build(
            ContextInput(
                profile=profile,
                model=model,
                prompt=PROMPTS[profile.prompt].text,
                messages=messages,
                specs=bounds.specs,
                lists=bounds.lists,
                today=run.began_at.astimezone(ZoneInfo(run.timezone)).date(),
                timezone=run.timezone,
                locale=run.locale,
                context_tokens=self._settings.model_context_tokens,
                count=tokens.count,
                app=run.request.context,
                include_hidden=include_hidden,
                closing=NO_MORE_TURNS if last else None,
                recalled=recalled,
            )
        )

    def tool_context(self, bounds: Bounds, call: ToolCall) -> ToolContext:
        """On whose behalf a tool runs. The call's id names run and turn, so it is the key, too."""
        run = bounds.run
        return ToolContext(
            owner_id=run.owner_id,
            run_key=run.key,
            session_key=run.session_key,
            idempotency_key=f"{run.key}:{call.id}",
            source_message_ids=run.user_message_ids,
            min_confidence=bounds.profile.memory.min_confidence,
            workspace=self._settings.workspace_dir / str(run.session_key),
        )
