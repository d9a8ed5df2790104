"""Runs that are broken on purpose: replaying the corpus through them must be noticed."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from activities.automation import AutomationActivities
    from activities.runs import BeginInput, FinishInput, RunActivities
    from domain.automation import AutomationInput, Firing
    from domain.events import RunStatus
    from domain.ids import AGENT_RUN, AUTOMATION
    from domain.runs import AgentRunInput, AgentRunResult, Ending
    from workflows.agent_run import AgentRunWorkflow
    from workflows.options import quick_local
    from workflows.steps import Steps


@workflow.defn(name=AGENT_RUN)
class EndsBeforeItSpeaks:
    """The run with two steps swapped: the end is recorded before anything is said."""

    @workflow.run
    async def run(self, input: AgentRunInput) -> None:
        await workflow.execute_local_activity_method(
            RunActivities.begin, BeginInput(input.run_key), **quick_local("begin")
        )
        await workflow.execute_local_activity_method(
            RunActivities.finish,
            FinishInput(input.run_key, Ending(RunStatus.COMPLETED)),
            **quick_local("end"),
        )


@workflow.defn(name=AGENT_RUN)
class SkipsEverything:
    """A run that does nothing at all."""

    @workflow.run
    async def run(self, input: AgentRunInput) -> None:
        return


@workflow.defn(name=AUTOMATION)
class LeavesItsSlotUnread:
    """A firing that claims its slot and does nothing with it."""

    @workflow.run
    async def run(self, input: AutomationInput) -> None:
        info = workflow.info()
        firing = Firing(input.job_id, info.workflow_id, info.run_id, info.start_time)
        await workflow.execute_local_activity_method(
            AutomationActivities.claim, firing, **quick_local("claim")
        )


@workflow.defn(name=AGENT_RUN)
class AsksOnceMore(AgentRunWorkflow):
    """A memory run that asks the model again when its operations are done, as a chat would."""

    @workflow.init
    def __init__(self, input: AgentRunInput) -> None:
        super().__init__(input)

    @workflow.run
    async def run(self, input: AgentRunInput) -> AgentRunResult:
        return await super().run(input)

    async def _extract(self, step: Steps) -> Ending:
        ending = await super()._extract(step)
        await step.model_turn(self._state.turn + 1, None, extract=True)
        return ending
