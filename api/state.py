"""What a route may ask for: made once by the lifespan, typed."""

from dataclasses import dataclass
from typing import Annotated, TypedDict

from fastapi import Depends, Request
from redis.asyncio import Redis
from temporalio.client import Client

from adapters.live import LiveEvents
from adapters.postgres.audit import AuditStore
from adapters.postgres.checkpoints import CheckpointStore
from adapters.postgres.events import EventStore
from adapters.postgres.fact_purge import FactPurge
from adapters.postgres.fact_sources import FactSources
from adapters.postgres.facts import FactStore
from adapters.postgres.job_overview import JobOverview
from adapters.postgres.job_sweep import JobSweepStore
from adapters.postgres.jobs import JobStore
from adapters.postgres.messages import MessageStore, SessionStore
from adapters.postgres.pool import Pool
from adapters.postgres.rollouts import RolloutStore
from adapters.postgres.runs import RunStore
from adapters.postgres.slots import SlotStore
from adapters.postgres.users import UserStore
from adapters.postgres.variants import VariantStore
from adapters.profiles import ProfileCatalog
from adapters.recall import Recall
from adapters.schedules import Schedules
from adapters.settings import Settings
from adapters.stream import EventStream
from adapters.tools.registry import Registry


@dataclass(frozen=True, slots=True)
class Services:
    settings: Settings
    pool: Pool
    redis: Redis
    temporal: Client
    runs: RunStore
    events: EventStore
    checkpoints: CheckpointStore
    variants: VariantStore
    messages: MessageStore
    sessions: SessionStore
    audit: AuditStore
    users: UserStore
    rollouts: RolloutStore
    jobs: JobStore
    slots: SlotStore
    sweep: JobSweepStore
    overview: JobOverview
    schedules: Schedules
    profiles: ProfileCatalog
    tools: Registry
    facts: FactStore
    sources: FactSources
    purge: FactPurge
    recall: Recall
    stream: EventStream
    live: LiveEvents


class State(TypedDict):
    services: Services


def _services(request: Request) -> Services:
    return request.state.services


Of = Annotated[Services, Depends(_services)]
