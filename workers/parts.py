"""The activities, wired to their stores. Nothing here decides anything."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client

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
from adapters.postgres.audit import AuditStore
from adapters.postgres.checkpoint_changes import CheckpointChanges
from adapters.postgres.checkpoints import CheckpointStore
from adapters.postgres.facts import FactStore
from adapters.postgres.frozen import FrozenStore
from adapters.postgres.job_sweep import JobSweepStore
from adapters.postgres.jobs import JobStore
from adapters.postgres.messages import MessageStore
from adapters.postgres.notices import NoticeStore
from adapters.postgres.pool import Pool
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
from adapters.stream import EventStream
from adapters.tools.catalog import built_in
from adapters.tools.registry import Tool
from adapters.webhook_sender import WebhookSender
from domain.ports import Embedder, Model


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
