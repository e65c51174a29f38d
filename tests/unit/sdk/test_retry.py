"""When a failed attempt is tried again: the tables of the design and what holds for every input."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sdk.odd import odd

from runnerq.errors import ConfigurationError
from runnerq.retry import Backoff, RetryPolicy, attempts_remain, backoff_seconds

BACKOFFS = [
    (1, 0, 3600, 2),
    (1, 1, 3600, 4),
    (5, 2, 3600, 40),
    (1, 10, 3600, 2048),
    (1, 11, 3600, 3600),
    (1, 3, 10, 10),
    (60, 9, 86_400, 61_440),
    (60, 15, 86_400, 86_400),
    (0, 50, 60, 0),
    (3, 1000, 2_147_483_647, 2_147_483_647),
]
REMAINING = [
    (0, 100_000, True),
    (1, 0, False),
    (2, 0, True),
    (2, 1, False),
    (5, 3, True),
    (5, 4, False),
    (5, 7, False),
]
seconds = st.floats(min_value=0, max_value=1e6, allow_nan=False)
durations = st.timedeltas(timedelta(0), timedelta(days=3660))


@pytest.mark.parametrize(("base", "failures", "cap", "expected"), BACKOFFS)
def test_the_backoff_is_the_base_times_a_power_of_two_up_to_the_cap(
    base: int, failures: int, cap: int, expected: int
) -> None:
    assert backoff_seconds(base, failures, cap) == expected


@pytest.mark.parametrize(("max_attempts", "failures", "expected"), REMAINING)
def test_max_attempts_counts_all_runs_and_zero_is_no_limit(
    max_attempts: int, failures: int, expected: bool
) -> None:
    assert attempts_remain(max_attempts, failures) is expected


@given(base=seconds, failures=st.integers(0, 10**9), cap=seconds)
def test_a_backoff_never_exceeds_its_cap_whatever_came_before(
    base: float, failures: int, cap: float
) -> None:
    assert 0 <= backoff_seconds(base, failures, cap) <= cap


@given(base=seconds, failures=st.integers(0, 2000), cap=seconds)
def test_a_backoff_never_gets_shorter_with_further_failures(
    base: float, failures: int, cap: float
) -> None:
    assert backoff_seconds(base, failures, cap) <= backoff_seconds(base, failures + 1, cap)


@given(base=st.floats(1e-6, 1e6), failures=st.integers(0, 10**6))
def test_a_backoff_without_a_cap_grows_without_an_error(base: float, failures: int) -> None:
    assert not math.isnan(backoff_seconds(base, failures, None))


@given(max_attempts=st.integers(1, 10**6), failures=st.integers(0, 10**6))
def test_as_many_runs_follow_as_were_allowed(max_attempts: int, failures: int) -> None:
    assert attempts_remain(max_attempts, failures) is (failures < max_attempts - 1)


@given(
    backoff=st.sampled_from(Backoff),
    base=durations,
    cap=durations,
    failures=st.integers(0, 10**6),
    jitter=st.booleans(),
    uniform=st.floats(0, 1, exclude_max=True),
)
def test_every_policy_waits_between_nothing_and_its_cap(
    *,
    backoff: Backoff,
    base: timedelta,
    cap: timedelta,
    failures: int,
    jitter: bool,
    uniform: float,
) -> None:
    policy = RetryPolicy(backoff=backoff, base=base, cap=cap, jitter=jitter)
    assert timedelta(0) <= policy.delay(failures, uniform=uniform) <= cap


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [
        (Backoff.EXPONENTIAL, [6, 12, 24, 30]),
        (Backoff.LINEAR, [3, 6, 9, 12]),
        (Backoff.CONSTANT, [3, 3, 3, 3]),
    ],
)
def test_each_backoff_grows_in_its_way(backoff: Backoff, expected: list[int]) -> None:
    policy = RetryPolicy(backoff=backoff, base=timedelta(seconds=3), cap=timedelta(seconds=30))
    assert [policy.delay(n).total_seconds() for n in range(4)] == expected


def test_jitter_takes_a_share_of_the_whole_wait() -> None:
    policy = RetryPolicy(jitter=True)
    assert policy.delay(1, uniform=0.5) == timedelta(seconds=2)
    assert all(timedelta(0) <= policy.delay(1) <= timedelta(seconds=4) for _ in range(100))


def test_a_policy_does_not_retry_the_exceptions_it_names_nor_their_subclasses() -> None:
    policy = RetryPolicy(non_retryable=(LookupError,))
    assert not policy.retries(KeyError("x"))
    assert policy.retries(ValueError("x"))


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"base": timedelta(seconds=-1)}, "retry.base"),
        ({"base": 5}, "retry.base"),
        ({"cap": timedelta(seconds=-1)}, "retry.cap"),
        ({"cap": timedelta.max}, "retry.cap"),
        ({"cap": None}, "retry.cap"),
        ({"backoff": "quadratic"}, "retry.backoff"),
        ({"non_retryable": ValueError}, "retry.non_retryable"),
        ({"non_retryable": (ValueError, "KeyError")}, "retry.non_retryable"),
        ({"non_retryable": (int,)}, "retry.non_retryable"),
    ],
)
def test_a_policy_that_cannot_work_names_its_field(settings: object, field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RetryPolicy(**odd(settings))
    assert caught.value.field == field
