"""Durations as callers write them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sdk.odd import odd

from runnerq.durations import MAX_MS, milliseconds
from runnerq.errors import InvalidActivity


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (1, 1000),
        (0.001, 1),
        (0.0001, 1),
        (0.25, 250),
        (0.29, 290),
        (1.001, 1001),
        (2.3, 2300),
        (timedelta(seconds=2), 2000),
        (timedelta(microseconds=1), 1),
        (timedelta(milliseconds=1, microseconds=1), 2),
        (timedelta(days=3650), 3650 * 86_400_000),
    ],
)
def test_a_duration_is_whole_milliseconds_and_never_shorter_than_asked(
    value: float | timedelta, expected: int
) -> None:
    assert milliseconds(value, field="timeout") == expected


@given(st.integers(0, MAX_MS))
def test_whole_milliseconds_survive_being_written_as_seconds(ms: int) -> None:
    assert milliseconds(timedelta(milliseconds=ms), field="delay") == ms
    assert milliseconds(ms / 1000, field="delay") == ms


@given(st.floats(0, MAX_MS / 1000 - 1))
def test_a_number_of_seconds_is_rounded_up_by_less_than_a_millisecond(seconds: float) -> None:
    assert 0 <= milliseconds(seconds, field="delay") / 1000 - seconds + 1e-6 <= 0.001 + 2e-6


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        -1,
        -0.5,
        timedelta(seconds=-1),
        timedelta.min,
        timedelta.max,
        10**400,
        1e300,
        True,
        None,
        "5",
        Decimal(5),
        [5],
    ],
)
def test_what_is_no_duration_is_refused_by_the_name_of_its_field(value: object) -> None:
    with pytest.raises(InvalidActivity, match=r"^delay: ") as caught:
        milliseconds(odd(value), field="delay")
    assert caught.value.field == "delay"


def test_a_duration_below_its_least_is_refused() -> None:
    with pytest.raises(InvalidActivity, match=r"too short; at least 0\.001 s"):
        milliseconds(0, field="timeout", at_least_ms=1)
