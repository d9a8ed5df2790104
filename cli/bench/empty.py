"""A workflow that does nothing: what the engine itself costs, the floor under every run."""

from temporalio import workflow


@workflow.defn(name="BenchEmpty")
class EmptyWorkflow:
    @workflow.run
    async def run(self) -> None:
        return
