"""The agent worker: `python -m workers.agent`. Wiring only; nothing here decides anything."""

import argparse
import asyncio
import contextlib
import signal
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any

import structlog
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.worker import Worker

from adapters import logs, settings
from adapters.embeddings import open_embedder
from adapters.llm.openai import OpenAIModel, build_client
from adapters.postgres.pool import create_pool
from adapters.schedules import Schedules, policy_of
from adapters.settings import Settings
from adapters.stream import EventStream, open_redis
from adapters.temporal import connect, ensure_search_attributes, measured
from workers.parts import Parts, assemble
from workers.sandbox import STRICT_SANDBOX
from workflows.agent_run import AgentRunWorkflow
from workflows.automation import AutomationWorkflow
from workflows.reconcile import RECONCILE_ID, ReconcileRunsInput, ReconcileRunsWorkflow
from workflows.reconcile_jobs import ReconcileJobsWorkflow
from workflows.webhook import WebhookWorkflow

WORKFLOWS: Sequence[type] = [
    AgentRunWorkflow,
    AutomationWorkflow,
    ReconcileJobsWorkflow,
    ReconcileRunsWorkflow,
    WebhookWorkflow,
]

DRAIN = timedelta(seconds=8)
"""How long a worker that is told to stop lets its activities go on before it cancels them."""

_log = structlog.get_logger(__name__)


class Serve(StrEnum):
    """What one process takes on. All of it, unless a deployment splits the queues."""

    RUNS = "runs"
    MODEL = "model"
    TOOLS = "tools"


def build(
    client: Client,
    settings: Settings,
    parts: Parts,
    serve: frozenset[Serve] = frozenset(Serve),
    **options: Any,
) -> list[Worker]:
    """One worker per task queue that this process serves. `options` go to each of them."""
    quick = [
        *(parts.runs.begin, parts.runs.finish, parts.runs.notice, parts.runs.admit),
        *(parts.reconcile.sweep, parts.webhooks.deliver),
        *(parts.tools.refuse, parts.tools.fail, parts.facts.index, parts.jobs.reconcile),
        *(parts.tools.answered, parts.checkpoints.review, parts.checkpoints.put),
        *(parts.checkpoints.remind, parts.checkpoints.expire, parts.checkpoints.answer),
        *(parts.checkpoints.pause, parts.checkpoints.cost),
        *(parts.automation.claim, parts.automation.next_run, parts.automation.await_run),
        *(parts.automation.close, parts.automation.end),
    ]
    queues: dict[str, list[Any]] = {}
    if Serve.RUNS in serve:
        # Quick tools are local to the workflow, so its worker knows how to run them too.
        queues.setdefault(settings.run_queue, []).extend([*quick, parts.tools.call])
    if Serve.MODEL in serve:
        queues.setdefault(settings.model_queue or settings.run_queue, []).append(parts.model.turn)
    if Serve.TOOLS in serve and settings.tool_queue not in (None, settings.run_queue):
        queues.setdefault(settings.tool_queue or "", []).append(parts.tools.call)
    return [
        Worker(
            client,
            task_queue=queue,
            workflows=WORKFLOWS if Serve.RUNS in serve and queue == settings.run_queue else [],
            activities=activities,
            workflow_runner=STRICT_SANDBOX,
            # An interrupt reaches an activity with the answer to its heartbeat.
            max_heartbeat_throttle_interval=timedelta(milliseconds=400),
            default_heartbeat_throttle_interval=timedelta(milliseconds=400),
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=3),
            graceful_shutdown_timeout=DRAIN,
            **options,
        )
        for queue, activities in queues.items()
    ]


async def ensure_reconcilers(client: Client, settings: Settings) -> None:
    """Start the two reconcilers of this namespace, or find them running."""
    await Schedules(client, policy_of(settings)).ensure_reconciler(settings.job_reconcile_s)
    await client.start_workflow(
        ReconcileRunsWorkflow.run,
        ReconcileRunsInput(settings.reconcile_s),
        id=RECONCILE_ID,
        task_queue=settings.run_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        task_timeout=timedelta(seconds=3),
        static_summary="mends runs whose row and workflow disagree",
    )


async def main(serve: frozenset[Serve]) -> None:
    config = settings.load()
    logs.configure(config.log_level, config.log_format)
    runtime = measured(config.metrics_address) if config.metrics_address else None
    client = await connect(config.temporal_address, config.temporal_namespace, runtime)
    await ensure_search_attributes(client)
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        pool = await create_pool(config.database_url, max_size=20)
        stack.push_async_callback(pool.close)
        redis = await stack.enter_async_context(open_redis(config.redis_url))
        stream = EventStream(redis, config.stream_cap, config.stream_ttl_s)
        provider = await stack.enter_async_context(build_client(config))
        model = OpenAIModel(provider, dialect=config.model_dialect)
        embedder = await stack.enter_async_context(open_embedder(config))
        parts = assemble(
            config, client=client, pool=pool, stream=stream, model=model, embedder=embedder
        )
        for worker in build(client, config, parts, serve):
            await stack.enter_async_context(worker)
        if Serve.RUNS in serve:
            await ensure_reconcilers(client, config)
        _log.info("worker_ready", serve=sorted(serve), queue=config.run_queue)
        await stop.wait()
        _log.info("worker_draining", seconds=DRAIN.total_seconds())


def parse(arguments: Sequence[str] | None = None) -> frozenset[Serve]:
    parser = argparse.ArgumentParser(description="Run Varve's workflows and activities.")
    parser.add_argument(
        "--serve",
        nargs="+",
        type=Serve,
        choices=list(Serve),
        default=list(Serve),
        help="what this process takes on (default: everything)",
    )
    return frozenset(parser.parse_args(arguments).serve)


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(parse()))
