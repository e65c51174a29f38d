"""UUIDv7: time-ordered ids, made by whoever enqueues.

The first 48 bits are Unix milliseconds, so ids sort by creation and a partition is found from the id
alone. Within one process ids of the same millisecond keep their order by a counter.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING
from uuid import UUID

from runnerq.clock import instant

if TYPE_CHECKING:
    from datetime import datetime

_COUNTER_BITS = 12


class IdSource:
    """Makes UUIDv7s that increase strictly within this source, also when the clock steps back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_ms = 0
        self._counter = 0

    def next(self) -> UUID:
        tail = int.from_bytes(os.urandom(8), "big")
        with self._lock:
            now_ms = time.time_ns() // 1_000_000
            if now_ms > self._last_ms:
                self._last_ms = now_ms
                # Starts low so that thousands of ids fit in one millisecond.
                self._counter = tail >> 56
            else:
                self._counter += 1
                if self._counter >> _COUNTER_BITS:
                    self._last_ms += 1
                    self._counter = 0
            high = self._last_ms << 16 | 0x7000 | self._counter
        return UUID(int=high << 64 | 0x8000_0000_0000_0000 | tail & 0x3FFF_FFFF_FFFF_FFFF)


def instant_of(activity_id: UUID) -> datetime:
    """When a UUIDv7 was made, by its maker's clock."""
    return instant(activity_id.int >> 80)
