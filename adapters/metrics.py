"""Counts of jobs and slots in Prometheus' text format. No ids, no names: anyone may read them."""

from collections.abc import Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from adapters.postgres.job_overview import Figures
from domain.jobs import JobStatus, SlotStatus

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Read(Collector):
    """Figures that were read from the database a moment ago."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = tuple(metrics)

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def exposition(figures: Figures, now: datetime) -> bytes:
    """Every status is there at all times, with 0 where nothing is: an alert needs the series."""
    jobs = GaugeMetricFamily("varve_jobs", "Automation jobs by status", labels=["status"])
    for status in JobStatus:
        jobs.add_metric([status.value], figures.jobs.get(status.value, 0))
    slots = GaugeMetricFamily(
        "varve_job_slots_recent", "Slots begun in the last 24 hours, by outcome", labels=["outcome"]
    )
    for outcome in SlotStatus:
        slots.add_metric([outcome.value], figures.slots.get(outcome.value, 0))
    oldest = figures.oldest_running
    age = 0.0 if oldest is None else max(0.0, (now - oldest).total_seconds())
    registry = CollectorRegistry()
    registry.register(
        _Read(
            [
                jobs,
                GaugeMetricFamily(
                    "varve_job_slots_missed",
                    "Slots that were due and have not run, when jobs were last reconciled",
                    figures.missed,
                ),
                GaugeMetricFamily(
                    "varve_jobs_failing",
                    "Active jobs whose last three slots failed, or more",
                    figures.failing,
                ),
                slots,
                GaugeMetricFamily(
                    "varve_job_slot_oldest_running_seconds",
                    "Age of the running slot that began first; 0: none runs",
                    age,
                ),
            ]
        )
    )
    return generate_latest(registry)
