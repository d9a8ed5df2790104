"""Waiting for a run without reading it."""

import asyncio

from api.state import Services
from domain.events import RunFinished, RunPaused
from domain.runs import Run


async def over(services: Services, run: Run, within_s: float, *, or_paused: bool = False) -> bool:
    """Whether the run ends within this time; or_paused: or waits for a person."""
    try:
        async with asyncio.timeout(within_s):
            await _over(services, run, or_paused)
    except TimeoutError:
        return False
    return True


async def _over(services: Services, run: Run, or_paused: bool) -> None:
    async with services.live.reading(run.key, ended=run.status.ended) as items:
        async for item in items:
            if item is None:
                continue
            if isinstance(item.event, RunFinished) or (
                or_paused and isinstance(item.event, RunPaused)
            ):
                return
