"""Series: the last minutes of a queue as numbers over time, for the console's charts.

Pure, and bounded: a fixed number of points, whatever happens. A failed read leaves a gap, never a zero.
What must survive a restart (activities, decisions) is in the backend, not here.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from runnerq.clock import milliseconds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from runnerq.documents import Document
    from runnerq.storage.records import QueueDemand

POINTS = 450
"""15 minutes at one point every 2 s."""

RATE_WINDOW_MS = 15_000
"""Engines report their counters every 5 s; over three reports the rate is smooth."""


class PoolPoint(NamedTuple):
    """None where nobody reported."""

    desired: int | None
    ready: int | None
    busy: int | None
    backlog: int | None


class Point(NamedTuple):
    at_ms: int
    rate: float | None = None
    """Attempts finished per second."""
    claimable: int | None = None
    running: int | None = None
    pools: Mapping[str, PoolPoint] = {}


class Series:
    def __init__(self, *, points: int = POINTS) -> None:
        self._points: deque[Point] = deque(maxlen=points)

    def append(self, point: Point) -> None:
        self._points.append(point)

    def document(self) -> Document:
        """Columns of equal length, oldest first; None is a gap."""
        points = list(self._points)
        names = sorted({name for point in points for name in point.pools})
        return {
            "at_ms": [point.at_ms for point in points],
            "rate": [point.rate for point in points],
            "claimable": [point.claimable for point in points],
            "running": [point.running for point in points],
            "pools": {
                name: {
                    field: [
                        getattr(point.pools[name], field) if name in point.pools else None
                        for point in points
                    ]
                    for field in PoolPoint._fields
                }
                for name in names
            },
        }


def point_document(point: Point) -> Document:
    """One point, as the live stream appends it."""
    return {
        "at_ms": point.at_ms,
        "rate": point.rate,
        "claimable": point.claimable,
        "running": point.running,
        "pools": {name: pool._asdict() for name, pool in point.pools.items()},
    }


class _Span(NamedTuple):
    start_ms: int
    end_ms: int
    finished: int


class Throughput:
    """Attempts finished per second, from the monotone counters that engines report."""

    def __init__(self, *, window_ms: int = RATE_WINDOW_MS) -> None:
        self._window_ms = window_ms
        self._seen: dict[UUID, int] = {}
        self._seen_at_ms: int | None = None
        self._spans: deque[_Span] = deque()

    @property
    def rate(self) -> float | None:
        """None until two reads have been compared."""
        if not self._spans:
            return None
        elapsed_ms = self._spans[-1].end_ms - self._spans[0].start_ms
        finished = sum(span.finished for span in self._spans)
        return round(finished * 1000 / elapsed_ms, 3) if elapsed_ms > 0 else None

    def read(self, demand: QueueDemand) -> float | None:
        """Take in one read of the engines; answers the rate now."""
        now_ms = milliseconds(demand.as_of)
        counted = {
            engine.info.engine_id: sum(entry.finished for entry in engine.counters.values())
            for engine in demand.engines
        }
        if self._seen_at_ms is not None and now_ms > self._seen_at_ms:
            finished = 0
            for engine in demand.engines:
                engine_id = engine.info.engine_id
                before = self._seen.get(engine_id)
                if before is None:
                    # An engine born since the last read did all of it since; an older one that we
                    # see for the first time did an unknown part, which is left out.
                    born_since = milliseconds(engine.started_at) >= self._seen_at_ms
                    before = 0 if born_since else counted[engine_id]
                finished += max(0, counted[engine_id] - before)
            self._spans.append(_Span(self._seen_at_ms, now_ms, finished))
        self._seen = counted
        self._seen_at_ms = now_ms
        while len(self._spans) > 1 and self._spans[0].end_ms <= now_ms - self._window_ms:
            self._spans.popleft()
        return self.rate
