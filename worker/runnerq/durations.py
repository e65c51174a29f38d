"""Durations as callers write them: seconds as a number, or a timedelta. Milliseconds inside."""

from __future__ import annotations

import math
from datetime import timedelta

from runnerq.errors import InvalidActivity

Duration = float | timedelta
"""Seconds, or a timedelta."""

MAX_MS = 10 * 366 * 24 * 3600 * 1000
"""Ten years: beyond it a duration is a mistake in its unit."""


def milliseconds(value: Duration, *, field: str, at_least_ms: int = 0) -> int:
    """Whole milliseconds, rounded up so that nothing short of zero becomes zero.

    Raises InvalidActivity naming `field`.

    >>> milliseconds(0.0005, field="timeout"), milliseconds(timedelta(seconds=2), field="timeout")
    (1, 2000)
    """
    if isinstance(value, timedelta):
        whole, rest = divmod(value, timedelta(milliseconds=1))
        result = whole + (rest > timedelta(0))
    elif isinstance(value, bool) or not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidActivity(field, f"{value!r} is not a number of seconds or a timedelta")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidActivity(field, f"{value!r} is not a duration")
    else:
        # Rounded first: 0.001 * 1000 must not become 2 for its last binary digit.
        result = math.ceil(round(value * 1000, 6))
    if result < at_least_ms:
        raise InvalidActivity(field, f"{value} is too short; at least {at_least_ms / 1000:g} s")
    if result > MAX_MS:
        raise InvalidActivity(field, f"{value} is longer than ten years; is the unit seconds?")
    return result
