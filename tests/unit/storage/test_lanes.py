"""The order of lanes: priority lifted by age, then retries, then due time, then id."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerq.storage.lanes import LaneHead, effective_order, lifted, retry_share

NOW_MS = 10_000_000
HEADS = st.tuples(st.integers(1, 4), st.integers(0, 7), st.integers(0, NOW_MS), st.uuids()).map(
    lambda part: head(*part)
)


def head(priority: int, retried: int, due_ms: int, activity_id: UUID) -> LaneHead:
    return LaneHead(type="work", priority=priority, retried=retried, due_ms=due_ms, id=activity_id)


@pytest.mark.parametrize(
    ("priority", "waited_ms", "ageing_ms", "level"),
    [
        (1, 0, 300_000, 1),
        (1, 299_999, 300_000, 1),
        (1, 300_000, 300_000, 2),
        (1, 899_999, 300_000, 3),
        (1, 900_000, 300_000, 4),
        (1, 90_000_000, 300_000, 4),
        (3, 600_000, 300_000, 4),
        (4, 600_000, 300_000, 4),
        (1, 90_000_000, None, 1),
        (2, -5, 300_000, 2),
    ],
)
def test_waiting_lifts_a_lane_step_by_step_up_to_the_top(
    priority: int, waited_ms: int, ageing_ms: int | None, level: int
) -> None:
    assert lifted(priority, waited_ms, ageing_ms) == level


@given(st.lists(HEADS, max_size=20, unique_by=lambda one: one.id))
def test_without_ageing_nothing_comes_before_a_higher_priority(heads: list[LaneHead]) -> None:
    order = effective_order(heads, now_ms=NOW_MS, ageing_ms=None)
    assert sorted(order, key=lambda one: one.id) == sorted(heads, key=lambda one: one.id)
    for earlier, later in pairwise(order):
        assert (-earlier.priority, -earlier.retried, earlier.due_ms, earlier.id) < (
            -later.priority,
            -later.retried,
            later.due_ms,
            later.id,
        )


@given(st.lists(HEADS, min_size=1, max_size=20, unique_by=lambda one: one.id))
def test_whoever_has_waited_longest_is_first_in_the_end(heads: list[LaneHead]) -> None:
    """Of unretried lanes, once all have waited long enough, the oldest leads whatever its priority."""
    fresh = [head(one.priority, 0, one.due_ms, one.id) for one in heads]
    [first, *_] = effective_order(fresh, now_ms=NOW_MS * 100, ageing_ms=1_000)
    assert (first.due_ms, first.id) == min((one.due_ms, one.id) for one in fresh)


def test_the_order_does_not_depend_on_the_order_it_was_given_in() -> None:
    heads = [head(2, number % 3, 5, UUID(int=number)) for number in range(9)]
    order = effective_order(heads, now_ms=NOW_MS, ageing_ms=None)
    assert effective_order(reversed(heads), now_ms=NOW_MS, ageing_ms=None) == order


@given(st.integers(2, 1_000))
def test_retries_never_get_more_than_half_of_several(limit: int) -> None:
    assert 1 <= retry_share(limit) <= limit / 2


def test_a_single_place_may_go_to_a_retry() -> None:
    assert retry_share(1) == 1
