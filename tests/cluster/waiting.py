"""Waits for a condition with a deadline; never for a length of time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DeadlinePassed(RuntimeError):
    """What was waited for did not come; the message says what and how long."""


def eventually(
    probe: Callable[[], T | None],
    *,
    seconds: float,
    what: str,
    every: float = 0.1,
    detail: Callable[[], str] = lambda: "",
) -> T:
    """Call the probe until it returns something true, and return that.

    Args:
        probe: what to ask; None or anything false means not yet.
        seconds: the deadline.
        what: what is waited for, for the message.
        every: seconds between two questions.
        detail: is asked for more words when the deadline has passed.

    Raises:
        DeadlinePassed: it stayed false.
    """
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise DeadlinePassed(f"no sign of {what} after {seconds:.0f} s\n{detail()}".rstrip())
        time.sleep(every)
