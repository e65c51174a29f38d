"""Where instants come from: the port `Clock`, and the clock of the machine.

Backends that keep time themselves (memory, SQLite) are handed a clock; those with a server use the
server's. Nothing else in the engine asks what time it is to decide about stored work.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def instant(ms: int) -> datetime:
    """An aware UTC datetime from stored milliseconds, exact.

    >>> instant(1_500).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return _EPOCH + ms * _MILLISECOND


def optional_instant(ms: int | None) -> datetime | None:
    return None if ms is None else instant(ms)


def milliseconds(at: datetime) -> int:
    """Stored milliseconds of an aware datetime, rounded up: nothing is due before its instant."""
    return -((_EPOCH - at) // _MILLISECOND)
