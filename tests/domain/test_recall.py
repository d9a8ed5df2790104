"""Laws of fusion, and of what is admitted to an answer."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from domain.recall import MARGIN, Near, WordHit, fuse, level, ranked

items = st.integers(0, 12)
rankings = st.lists(st.lists(items, unique=True, max_size=8), max_size=4)
ids = st.integers(0, 8).map(lambda n: UUID(int=n))
hits = st.lists(
    st.builds(WordHit, ids, st.floats(0.1, 9), st.booleans()), unique_by=lambda h: h.fact_id
)
nears = st.lists(st.builds(Near, ids, st.floats(-1, 1)), unique_by=lambda n: n.fact_id)


@given(rankings)
def test_fusion_keeps_exactly_what_was_ranked_best_first(given: list[list[int]]) -> None:
    fused = fuse(given)
    assert set(fused) == {item for ranking in given for item in ranking}
    assert list(fused.values()) == sorted(fused.values(), reverse=True)


@given(st.lists(items, unique=True, max_size=8))
def test_one_ranking_stays_as_it_is(ranking: list[int]) -> None:
    assert list(fuse([ranking])) == ranking
    assert list(fuse([ranking, ranking])) == ranking


@given(rankings)
def test_the_order_of_the_rankings_changes_no_score(given: list[list[int]]) -> None:
    forth, back = fuse(given), fuse(given[::-1])
    assert {item: round(score, 12) for item, score in forth.items()} == {
        item: round(score, 12) for item, score in back.items()
    }


@given(rankings, items, st.integers(0, 3))
def test_being_ranked_higher_never_lowers_a_score(
    given: list[list[int]], item: int, which: int
) -> None:
    if which >= len(given) or item not in given[which]:
        return
    raised = [item, *(other for other in given[which] if other != item)]
    before, after = fuse(given), fuse([*given[:which], raised, *given[which + 1 :]])
    assert after[item] >= before[item]


@given(rankings, items)
def test_what_is_first_everywhere_is_first(given: list[list[int]], item: int) -> None:
    everywhere = [[item, *(other for other in ranking if other != item)] for ranking in given]
    if everywhere:
        assert next(iter(fuse(everywhere))) == item


@given(hits, nears)
def test_only_what_a_word_finds_or_is_near_enough_is_admitted(
    hits: list[WordHit], nears: list[Near]
) -> None:
    found = set(ranked(hits, nears))
    by_word = {hit.fact_id for hit in hits}
    assert found == by_word | {near.fact_id for near in nears if near.above >= MARGIN}


@given(hits, nears)
def test_the_best_fact_with_a_telling_word_comes_before_any_without_one(
    hits: list[WordHit], nears: list[Near]
) -> None:
    hits = sorted(hits, key=lambda hit: -hit.score)
    if hits and hits[0].telling:
        order = list(ranked(hits, nears))
        first = next(hit.fact_id for hit in hits if hit.telling)
        untold = {near.fact_id for near in nears} - {hit.fact_id for hit in hits}
        assert all(order.index(first) < order.index(each) for each in untold if each in order)


def test_the_level_is_the_mean_of_the_two_nearest() -> None:
    assert level([0.1, 0.9, 0.7]) == 0.8
