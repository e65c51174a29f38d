"""What a handler raises to say how its attempt ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sdk.odd import odd

from runnerq import InvalidActivity, Retry, RunnerQError, Snooze
from runnerq import errors as all_errors
from runnerq.errors import LONGEST_WAIT


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (5, timedelta(seconds=5)),
        (0.001, timedelta(milliseconds=1)),
        (timedelta(minutes=1), timedelta(minutes=1)),
        (0, timedelta(0)),
        (-5, timedelta(0)),
        (timedelta.min, timedelta(0)),
        (timedelta.max, LONGEST_WAIT),
        (float("inf"), LONGEST_WAIT),
        (float("-inf"), timedelta(0)),
        (10**400, LONGEST_WAIT),
    ],
)
def test_a_wait_asked_for_by_a_handler_is_between_now_and_the_longest_one(
    after: Any, expected: timedelta
) -> None:
    assert Snooze(after).after == expected
    assert Retry(after=after).after == expected


@pytest.mark.parametrize("after", ["5", None, float("nan"), [5]])
def test_a_wait_that_is_none_is_refused_where_it_is_raised(after: object) -> None:
    with pytest.raises(InvalidActivity, match=r"^after: "):
        Snooze(odd(after))


def test_a_retry_without_a_wait_leaves_it_to_the_policy() -> None:
    assert Retry("again").after is None
    assert str(Retry()) == "retry requested by the handler"
    assert str(Snooze(1)) == "snoozed by the handler"


def test_every_error_is_one_of_ours() -> None:
    kinds = [kind for kind in vars(all_errors).values() if isinstance(kind, type)]
    ours = [kind for kind in kinds if issubclass(kind, Exception)]
    assert len(ours) >= 18
    assert all(issubclass(kind, RunnerQError) for kind in ours)
