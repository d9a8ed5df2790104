"""Rollout rules of operators."""

from uuid import UUID, uuid4

import pytest

from adapters.postgres.pool import Pool
from adapters.postgres.rollouts import RolloutStore
from domain.errors import InvalidInput, NotFound
from domain.profiles import SessionType, choose_profile
from tests.adapters.tool_calls import add_owner

pytestmark = pytest.mark.anyio


async def test_rules_are_listed_in_the_order_in_which_they_are_asked(pool: Pool) -> None:
    store = RolloutStore(pool)
    late = await store.add("c", 10)
    early = await store.add("a", 33.3, priority=1, task_type="report")
    next_ = await store.add("d", 10)
    assert await store.list() == (early, late, next_)
    assert early.rule.percentage == 33.3


async def test_a_rule_moves_an_owner_and_taking_it_away_moves_them_back(pool: Pool) -> None:
    store, owner = RolloutStore(pool), await add_owner(pool)
    row = await store.add("cheaper", 100, owner_id=owner, created_by=owner)

    async def chosen() -> str:
        return choose_profile(
            requested=None,
            session_profile=None,
            rollouts=[each.rule for each in await store.list()],
            owner_id=str(owner),
            task_type=None,
            session_type=SessionType.CHAT,
        )

    assert await chosen() == "cheaper"
    await store.remove(UUID(row.rule.id))
    assert await chosen() == "chat_default"


async def test_a_rule_that_is_not_there_can_not_be_removed(pool: Pool) -> None:
    with pytest.raises(NotFound):
        await RolloutStore(pool).remove(uuid4())


@pytest.mark.parametrize("percentage", [-1, 100.5, float("nan")])
async def test_a_percentage_is_from_0_to_100(pool: Pool, percentage: float) -> None:
    with pytest.raises(InvalidInput) as raised:
        await RolloutStore(pool).add("a", percentage)
    assert raised.value.field == "percentage"
