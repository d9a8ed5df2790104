"""Which profile a run gets."""

from hypothesis import given
from hypothesis import strategies as st

from domain.profiles import DEFAULT_PROFILE, Rollout, SessionType, bucket, choose_profile

ids = st.uuids().map(str)
percentages = st.floats(0, 100)


def chosen(
    *, requested: str | None = None, session: str | None = None, rules: tuple[Rollout, ...] = ()
) -> str:
    return choose_profile(
        requested=requested,
        session_profile=session,
        rollouts=rules,
        owner_id="owner",
        task_type=None,
        session_type=SessionType.CHAT,
    )


EVERYONE = Rollout("1", "rolled", 100)


def test_request_goes_before_session_before_rollout_before_default() -> None:
    assert chosen(requested="asked", session="kept", rules=(EVERYONE,)) == "asked"
    assert chosen(session="kept", rules=(EVERYONE,)) == "kept"
    assert chosen(rules=(EVERYONE,)) == "rolled"
    assert chosen() == DEFAULT_PROFILE[SessionType.CHAT] == "chat_default"


def test_an_automation_session_has_its_own_default() -> None:
    name = choose_profile(
        requested=None,
        session_profile=None,
        rollouts=(),
        owner_id="owner",
        task_type=None,
        session_type=SessionType.AUTOMATION,
    )
    assert name == "automation_memory_default"


def test_the_first_rule_that_matches_decides() -> None:
    others = Rollout("2", "other", 100, owner_id="somebody else")
    tasks = Rollout("3", "tasks", 100, task_type="report")
    assert chosen(rules=(others, tasks, Rollout("4", "none", 0), EVERYONE)) == "rolled"


@given(ids, ids)
def test_the_draw_is_stable_and_in_range(rule: str, owner: str) -> None:
    assert bucket(rule, owner) == bucket(rule, owner)
    assert 0 <= bucket(rule, owner) < 100


@given(ids, st.lists(ids, max_size=30), percentages, percentages)
def test_raising_a_percentage_only_adds_owners(
    rule: str, owners: list[str], a: float, b: float
) -> None:
    def reached(percentage: float) -> set[str]:
        return {owner for owner in owners if bucket(rule, owner) < percentage}

    assert reached(min(a, b)) <= reached(max(a, b))


@given(ids, st.lists(ids, max_size=30))
def test_zero_reaches_nobody_and_a_hundred_everybody(rule: str, owners: list[str]) -> None:
    assert not any(bucket(rule, owner) < 0 for owner in owners)
    assert all(bucket(rule, owner) < 100 for owner in owners)
