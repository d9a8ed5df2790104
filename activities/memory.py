"""Upkeep of what facts are found by."""

from dataclasses import dataclass

from temporalio import activity

from activities.errors import translated
from adapters.recall import Recall


@dataclass(frozen=True, slots=True)
class IndexFactsInput:
    limit: int = 200  # facts, of words and of vectors each


class FactActivities:
    def __init__(self, recall: Recall) -> None:
        self._recall = recall

    @activity.defn(name="facts.index")
    async def index(self, input: IndexFactsInput) -> int:
        """Work out words and vectors that are missing, a bounded number of them. Returns how many;
        0: there is nothing left to do, or nothing to do it with."""
        with translated():
            return await self._recall.index(input.limit)
