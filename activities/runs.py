"""How a run begins and ends: the profile is resolved and frozen, the last word is recorded."""

from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.context import ContextBuilder
from activities.errors import translated
from adapters import profile_format
from adapters.postgres.frozen import FrozenStore, RunContext
from adapters.postgres.rollouts import RolloutStore
from adapters.postgres.runs import RunStore
from adapters.postgres.turns import TurnStore
from adapters.profiles import ProfileCatalog
from adapters.prompts import PROMPTS
from adapters.settings import Settings
from adapters.stream import EventStream
from adapters.tools.refusals import failed
from domain.errors import InvalidInput, NotFound
from domain.events import Notice, Recorded, RunStatus
from domain.profiles import Profile, choose_profile
from domain.runs import Ended, Ending, RunPlan, Timing


@dataclass(frozen=True, slots=True)
class BeginInput:
    run_key: UUID


@dataclass(frozen=True, slots=True)
class FinishInput:
    run_key: UUID
    ending: Ending


@dataclass(frozen=True, slots=True)
class NoticeInput:
    run_key: UUID
    notice: Notice


class RunActivities:
    def __init__(
        self,
        *,
        runs: RunStore,
        turns: TurnStore,
        frozen: FrozenStore,
        rollouts: RolloutStore,
        catalog: ProfileCatalog,
        context: ContextBuilder,
        stream: EventStream,
        settings: Settings,
    ) -> None:
        self._runs = runs
        self._turns = turns
        self._frozen = frozen
        self._rollouts = rollouts
        self._catalog = catalog
        self._context = context
        self._stream = stream
        self._settings = settings

    @activity.defn(name="runs.admit")
    async def admit(self, input: BeginInput) -> bool:
        """Let a queued run into its session. False: it is not its turn; one that is over may go
        on too, to find that out."""
        with translated():
            turn = await self._runs.admit(input.run_key)
            if turn.started is not None:
                await self._stream.publish(input.run_key, [turn.started])
            return turn.admitted or turn.over

    @activity.defn(name="runs.begin")
    async def begin(self, input: BeginInput) -> RunPlan | None:
        """Resolve the profile and freeze it into the run; None if the run has ended already."""
        with translated():
            run = await self._frozen.load(input.run_key)
            profile = await self._profile(run)
            frozen = await self._frozen.freeze(
                run.key, profile_format.dump(profile), profile.name, profile.executor
            )
        if frozen is None:
            return None
        kept, started_at = frozen
        profile = profile_format.read(kept).profile
        self._context.remember(replace(run, profile=kept, began_at=started_at), profile)
        settings = self._settings
        return RunPlan(
            profile=profile.name,
            executor=profile.executor,
            models=(profile.model.name, *profile.model.fallback),
            max_turns=profile.limits.max_turns,
            turn_budget_tokens=profile.limits.turn_budget_tokens,
            deadline=started_at + timedelta(seconds=profile.limits.timeout_s),
            timing=Timing(heartbeat_s=settings.heartbeat_timeout_s, retry_s=settings.retry_s),
            model_queue=settings.model_queue,
            tool_queue=settings.tool_queue,
            placement=settings.placement,
            manners=settings.manners,
        )

    async def _profile(self, run: RunContext) -> Profile:
        if run.profile is not None:
            return profile_format.read(run.profile).profile
        if run.request.inline is not None:
            return _inline(run.request.inline)
        name = choose_profile(
            requested=run.request.profile,
            session_profile=run.session_profile,
            rollouts=[row.rule for row in await self._rollouts.list()],
            owner_id=str(run.owner_id),
            task_type=None,
            session_type=run.session_type,
        )
        try:
            return self._catalog.get(name)
        except (NotFound, InvalidInput) as error:
            raise _unusable(name, str(error)) from error

    @activity.defn(name="runs.finish")
    async def finish(self, input: FinishInput) -> Ended:
        """Answer what is unanswered, record the end and free the session. Safe to repeat.

        A run that was withdrawn has no end. Its workflow must not wait for one: the same id may be
        accepted again, and would then be ended by it.
        """
        recorded: list[Recorded] = []
        if input.ending.status is not RunStatus.COMPLETED:
            recorded += await self._answer_open_calls(input.run_key, input.ending)
        last, _ = await self._runs.finish(input.run_key, input.ending)
        if last is None:
            return Ended(RunStatus.FAILED, 0)
        await self._stream.publish(input.run_key, [*recorded, last])
        run = await self._runs.get_by_key(input.run_key)
        waiting = await self._runs.next_in_line(run.session_key)
        return Ended(run.status, run.cost_micro_usd, waiting)

    async def _answer_open_calls(self, run_key: UUID, ending: Ending) -> list[Recorded]:
        """Every tool call gets a result, also one that the run's end cut off."""
        recorded: list[Recorded] = []
        for call in await self._turns.unanswered(run_key):
            reason = f"The run was {ending.status} before this call had a result."
            result = failed(call, reason)
            if event := await self._turns.finish_tool(run_key, result, {"cut_off": True}):
                recorded.append(event)
        return recorded

    @activity.defn(name="runs.notice")
    async def notice(self, input: NoticeInput) -> None:
        """Tell the run's readers something they may show."""
        if recorded := await self._turns.notice(input.run_key, input.notice):
            await self._stream.publish(input.run_key, [recorded])


def _inline(document: str) -> Profile:
    """The profile that came with the request. Raises ApplicationError of type `profile`."""
    try:
        profile = profile_format.read(document).profile
    except InvalidInput as error:
        raise _unusable("of the request", str(error)) from error
    if profile.prompt not in PROMPTS:
        raise _unusable(profile.name, f"there is no prompt {profile.prompt!r}.")
    return profile


def _unusable(name: str, why: str) -> ApplicationError:
    return ApplicationError(
        f"Profile {name} can't be used: {why}", type="profile", non_retryable=True
    )
