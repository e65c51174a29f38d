"""Whether this process may write now, asked before every write.

It trusts only the last renewal and the monotonic clock: a process that was stopped and continued, or
whose event loop hung, finds its trust used up before it can send anything. It never does I/O.
"""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


class NotLeading(Exception):
    """A write was about to be sent by an operator that does not lead (any more)."""


def boot_clock() -> float:
    """Seconds that also count while the machine is suspended, where the system can tell."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Leadership:
    """Until when this process leads. Set by the elector, asked by whoever writes."""

    def __init__(self, clock: Clock = boot_clock) -> None:
        self._clock = clock
        self._until: float | None = None

    def now(self) -> float:
        """The clock that the deadline is on, in seconds."""
        return self._clock()

    def trust_until(self, deadline: float) -> None:
        """Lead until `deadline`: the moment the last renewal was *sent*, plus the renew deadline."""
        self._until = deadline

    def end(self) -> None:
        """Lead no more, from this moment."""
        self._until = None

    def seconds_left(self) -> float:
        """How long writing is still allowed; 0 when it is not."""
        return 0.0 if self._until is None else max(0.0, self._until - self._clock())

    @property
    def leading(self) -> bool:
        return self.seconds_left() > 0

    def check(self) -> float:
        """The seconds left to write in. Raises NotLeading when there are none."""
        left = self.seconds_left()
        if left <= 0:
            raise NotLeading("this operator does not hold the lease; nothing was sent")
        return left
