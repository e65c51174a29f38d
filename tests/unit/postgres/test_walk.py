"""Which lanes a claim walks, and how much of each."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from runnerq.storage.lanes import LaneHead, effective_order, lifted, retry_share
from runnerq.storage.postgres.walk import plan_walk, unshared

NOW_MS = 1_000_000


def lane(name: str, *, priority: int = 2, retried: int = 0, due_ms: int = 0) -> LaneHead:
    return LaneHead(type=name, priority=priority, retried=retried, due_ms=due_ms, id=UUID(int=1))


heads = st.lists(
    st.builds(
        lane,
        st.sampled_from("abc"),
        priority=st.integers(1, 4),
        retried=st.integers(0, 7),
        due_ms=st.integers(0, NOW_MS),
    ),
    unique_by=lambda head: (head.type, head.priority, head.retried),
)


@given(heads, st.integers(1, 500), st.sampled_from([None, 100_000, 300_000]))
def test_every_lane_is_walked_once_and_levels_keep_their_order(
    lanes: list[LaneHead], limit: int, ageing_ms: int | None
) -> None:
    walk = plan_walk(lanes, now_ms=NOW_MS, ageing_ms=ageing_ms, limit=limit)
    assert walk.lanes == effective_order(lanes, now_ms=NOW_MS, ageing_ms=ageing_ms)
    levels = [lifted(one.priority, NOW_MS - one.due_ms, ageing_ms) for one in walk.lanes]
    assert levels == sorted(levels, reverse=True)
    assert walk.groups == sorted(walk.groups)
    assert set(walk.groups) == set(range(1, len(walk.quotas) + 1))


@given(heads, st.integers(2, 500))
def test_retries_get_at_most_their_share_where_fresh_work_of_their_level_waits(
    lanes: list[LaneHead], limit: int
) -> None:
    walk = plan_walk(lanes, now_ms=NOW_MS, ageing_ms=None, limit=limit)
    for priority in range(1, 5):
        level = [
            (one, group)
            for one, group in zip(walk.lanes, walk.groups, strict=True)
            if one.priority == priority
        ]
        fresh = {group for one, group in level if not one.retried}
        retried = {group for one, group in level if one.retried}
        if fresh and retried:
            assert sum(walk.quotas[group - 1] for group in retried) == retry_share(limit)
            assert all(walk.quotas[group - 1] == limit for group in fresh)
        else:
            assert all(walk.quotas[group - 1] == limit for group in fresh | retried)


def test_a_single_claim_keeps_the_exact_order_without_shares() -> None:
    lanes = [lane("a"), lane("a", retried=3), lane("b", priority=4)]
    walk = plan_walk(lanes, now_ms=NOW_MS, ageing_ms=None, limit=1)
    assert not walk.shared
    assert [(one.type, one.retried) for one in walk.lanes] == [("b", 0), ("a", 3), ("a", 0)]
    assert set(walk.quotas) == {1}


def test_what_shares_leave_over_is_walked_in_the_same_order_without_them() -> None:
    walk = plan_walk([lane("a"), lane("a", retried=1)], now_ms=NOW_MS, ageing_ms=None, limit=10)
    assert walk.shared
    rest = unshared(walk, 4)
    assert (rest.lanes, rest.groups, rest.quotas, rest.shared) == (walk.lanes, [1, 1], [4], False)
