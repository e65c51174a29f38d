"""A clock that tests move by hand, so that an hour of backoff takes no time."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

_START_MS = 1_750_000_000_000


class VirtualClock:
    """Stands still until advanced. With `running=True` it also moves with real time, which an engine
    under test needs, since its own waits are real.

    >>> clock = VirtualClock()
    >>> before = clock.now_ms()
    >>> clock.advance(timedelta(seconds=2))
    >>> clock.now_ms() - before
    2000
    """

    def __init__(self, start_ms: int = _START_MS, *, running: bool = False) -> None:
        self._lock = threading.Lock()
        self._offset_ms = start_ms
        self._running = running
        self._origin_ns = time.monotonic_ns()

    def now_ms(self) -> int:
        with self._lock:
            elapsed = (time.monotonic_ns() - self._origin_ns) // 1_000_000 if self._running else 0
            return self._offset_ms + elapsed

    def advance(self, by: timedelta) -> None:
        """Move forward. Raises ValueError for a step back: stored instants would be in the future."""
        if by < timedelta(0):
            raise ValueError(f"by: {by} is negative; a backend's clock never goes back")
        with self._lock:
            self._offset_ms += by // timedelta(milliseconds=1)
