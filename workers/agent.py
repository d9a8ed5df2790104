"""The agent worker: `python -m workers.agent`. Wiring only; nothing here decides anything."""

import argparse
import asyncio
import contextlib
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

import structlog
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.worker import Worker

from activities.automation import AutomationActivities
from activities.checkpoints import CheckpointActivities
from activities.context import ContextBuilder
from activities.extraction import ExtractionBuilder
from activities.jobs import JobReconciler
from activities.memory import FactActivities
from activities.model import ModelActivities
from activities.recollection import Recollection
from activities.reconcile import ReconcileActivities
from activities.runs import RunActivities
from activities.tools import ToolActivities
from activities.webhooks import WebhookActivities
from adapters import logs, settings
from adapters.embeddings import open_embedder
from adapters.llm.openai import OpenAIModel, build_client
from adapters.postgres.audit import AuditStore
from adapters.postgres.checkpoint_changes import CheckpointChanges
from adapters.postgres.checkpoints import CheckpointStore
from adapters.postgres.facts import FactStore
from adapters.postgres.frozen import FrozenStore
from adapters.postgres.job_sweep import JobSweepStore
from adapters.postgres.jobs import JobStore
from adapters.postgres.messages import MessageStore
from adapters.postgres.notices import NoticeStore
from adapters.postgres.pool import Pool, create_pool
from adapters.postgres.reading import ReadingStore
from adapters.postgres.reconcile import ReconcileStore
from adapters.postgres.rollouts import RolloutStore
from adapters.postgres.runs import RunStore
from adapters.postgres.slots import SlotStore
from adapters.postgres.stateless import StatelessStore
from adapters.postgres.turns import TurnStore
from adapters.postgres.webhooks import WebhookStore
from adapters.postgres.windows import WindowStore
from adapters.prices import load_prices
from adapters.profiles import ProfileCatalog
from adapters.recall import Recall
from adapters.schedules import Schedules, policy_of
from adapters.settings import Settings
from adapters.stream import EventStream, open_redis
from adapters.temporal import connect, ensure_search_attributes, measured
from adapters.tools.catalog import built_in
from adapters.tools.registry import Tool
from adapters.webhook_sender import WebhookSender
from domain.ports import Embedder, Model
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


@dataclass(frozen=True, slots=True)
class Parts:
    """The activities, wired to their stores."""

    runs: RunActivities
    model: ModelActivities
    tools: ToolActivities
    checkpoints: CheckpointActivities
    reconcile: ReconcileActivities
    facts: FactActivities
    webhooks: WebhookActivities
    automation: AutomationActivities
    jobs: JobReconciler


def assemble(
    settings: Settings,
    *,
    client: Client,
    pool: Pool,
    stream: EventStream,
    model: Model,
    embedder: Embedder | None = None,
    more_tools: Iterable[Tool[Any]] = (),
) -> Parts:
    facts = FactStore(pool)
    recall = Recall(facts, embedder)
    registry = built_in(facts, recall, more_tools)
    turns, frozen, messages = TurnStore(pool), FrozenStore(pool), MessageStore(pool)
    context = ContextBuilder(
        frozen=frozen,
        messages=messages,
        registry=registry,
        settings=settings,
        recollection=Recollection(
            recall=recall, messages=messages, notices=NoticeStore(pool), stream=stream
        ),
    )
    checkpoints, runs = CheckpointStore(pool), RunStore(pool)
    extraction = ExtractionBuilder(store=ReadingStore(pool), settings=settings)
    slots, catalog = SlotStore(pool), ProfileCatalog(settings.profiles_dir)
    return Parts(
        runs=RunActivities(
            runs=runs,
            turns=turns,
            frozen=frozen,
            rollouts=RolloutStore(pool),
            catalog=catalog,
            context=context,
            stream=stream,
            settings=settings,
        ),
        model=ModelActivities(
            model=model,
            turns=turns,
            context=context,
            extraction=extraction,
            stream=stream,
            prices=load_prices(settings.prices_file),
            delta_ms=settings.delta_ms,
        ),
        tools=ToolActivities(
            registry=registry,
            turns=turns,
            messages=messages,
            context=context,
            extraction=extraction,
            checkpoints=checkpoints,
            stream=stream,
        ),
        checkpoints=CheckpointActivities(
            checkpoints=checkpoints,
            changes=CheckpointChanges(pool),
            runs=runs,
            messages=messages,
            registry=registry,
            context=context,
            stream=stream,
        ),
        reconcile=ReconcileActivities(
            client=client,
            runs=runs,
            store=ReconcileStore(pool),
            webhooks=WebhookStore(pool),
            stateless=StatelessStore(pool),
            keep=timedelta(seconds=settings.stateless_keep_s),
            stream=stream,
            run_queue=settings.run_queue,
        ),
        facts=FactActivities(recall),
        webhooks=WebhookActivities(
            webhooks=WebhookStore(pool), runs=runs, sender=_sender(settings)
        ),
        automation=AutomationActivities(
            jobs=JobStore(pool),
            slots=slots,
            windows=WindowStore(pool),
            runs=runs,
            audit=AuditStore(pool),
            catalog=catalog,
            registry=registry,
            stream=stream,
        ),
        jobs=JobReconciler(
            client=client,
            schedules=Schedules(client, policy_of(settings)),
            sweep=JobSweepStore(pool),
            slots=slots,
            jitter_s=settings.job_jitter_s,
        ),
    )


def _sender(settings: Settings) -> WebhookSender | None:
    if settings.webhook_secret is None:
        return None
    secret = settings.webhook_secret.get_secret_value()
    return WebhookSender(secret, private=settings.webhook_private)


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
