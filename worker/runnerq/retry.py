"""When a failed attempt is tried again: pure arithmetic, no clock.

The default is base * 2^(n+1) after failure n (0-based), capped. `Retry(after=...)` raised by a
handler wins over any policy. Whether attempts remain is `attempts_remain`; the same rule is applied
by the backends, inside the statement that stores the outcome.
"""

from __future__ import annotations

import random
from datetime import timedelta
from enum import StrEnum

import msgspec

from runnerq.errors import ConfigurationError

DEFAULT_BASE = timedelta(seconds=1)
DEFAULT_CAP = timedelta(hours=1)
LONGEST_CAP = timedelta(days=36_600)
"""A hundred years: beyond it a cap is a mistake in its unit."""


class Backoff(StrEnum):
    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    CONSTANT = "constant"


def backoff_seconds(base: float, failures_before: int, cap: float | None = 3600) -> float:
    """Seconds to wait after failure number `failures_before` (0-based): base * 2^(n+1), capped.

    Never overflows, whatever n is.

    >>> [backoff_seconds(*case) for case in ((1, 0), (5, 2), (1, 11), (0, 50, 60))]
    [2, 40, 3600, 0]
    """
    if base <= 0:
        return 0
    # 2^n beyond any cap: a float of 2^1100 would overflow, and 10,000 failures are legal (0 = no limit).
    exponent = min(failures_before + 1, 1000)
    ceiling = float("inf") if cap is None else cap
    doubled = 2**exponent
    return ceiling if doubled > ceiling / base else min(base * doubled, ceiling)


def attempts_remain(max_attempts: int, failures_before: int) -> bool:
    """Whether another attempt follows a failure that `failures_before` others preceded.

    `max_attempts` counts all runs; 0 is no limit.

    >>> [attempts_remain(*case) for case in ((0, 100000), (1, 0), (2, 0), (2, 1), (5, 3), (5, 4), (5, 7))]
    [True, False, True, False, True, False, False]
    """
    return max_attempts == 0 or failures_before + 1 < max_attempts


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How an activity type backs off. Durations are `timedelta`."""

    backoff: Backoff = Backoff.EXPONENTIAL
    base: timedelta = DEFAULT_BASE
    cap: timedelta = DEFAULT_CAP
    jitter: bool = False
    """Full jitter: uniform between 0 and the computed delay."""
    non_retryable: tuple[type[BaseException], ...] = ()
    """Exceptions (and their subclasses) that fail the activity at once."""

    def __post_init__(self) -> None:
        if not isinstance(self.backoff, Backoff):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"{self.backoff!r} is none of {', '.join(map(str, Backoff))}", field="retry.backoff"
            )
        for name, value in (("base", self.base), ("cap", self.cap)):
            if not isinstance(value, timedelta) or not timedelta(0) <= value <= LONGEST_CAP:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(
                    f"{value!r} is not a timedelta from 0 to a hundred years", field=f"retry.{name}"
                )
        if not isinstance(self.non_retryable, tuple) or not all(  # pyright: ignore[reportUnnecessaryIsInstance]
            isinstance(kind, type) and issubclass(kind, BaseException)  # pyright: ignore[reportUnnecessaryIsInstance]
            for kind in self.non_retryable
        ):
            raise ConfigurationError(
                f"{self.non_retryable!r} is not a tuple of exception classes",
                field="retry.non_retryable",
            )

    def delay(self, failures_before: int, *, uniform: float | None = None) -> timedelta:
        """The wait after failure `failures_before` (0-based). `uniform` in [0, 1) replaces the
        random draw of the jitter, for tests."""
        base, cap = self.base.total_seconds(), self.cap.total_seconds()
        match self.backoff:
            case Backoff.EXPONENTIAL:
                seconds = backoff_seconds(base, failures_before, cap)
            case Backoff.LINEAR:
                seconds = min(base * (failures_before + 1), cap)
            case Backoff.CONSTANT:
                seconds = min(base, cap)
        if self.jitter:
            seconds *= random.random() if uniform is None else uniform  # noqa: S311 - spreading load, not a secret
        return timedelta(seconds=seconds)

    def retries(self, error: BaseException) -> bool:
        return not isinstance(error, self.non_retryable)
