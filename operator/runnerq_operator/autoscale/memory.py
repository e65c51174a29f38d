"""What is remembered from one decision to the next. Plain data: it can be stored and compared.

A fresh `QueueMemory` is what an operator starts with; nothing that was learnt before is then known, and
`decide` shrinks nothing until one scale-down window has been seen.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from runnerq_operator.autoscale.inputs import Counted


class TypeMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Measured rates of one activity type, over all engines."""

    samples: int = 0
    """Finished runs ever seen."""
    finished: float = 0.0
    run_seconds: float = 0.0
    """Sums over about the last 200 runs; their ratio is the mean service time."""
    arrivals_per_second: float = 0.0
    """Smoothed. Below zero for a moment when counters lag behind the backlog; used as zero then."""
    claimable: int | None = None
    """At the last read; None when that was only a lower bound."""
    started_now: int = 0
    """Attempts started between the last two reads."""


class PoolMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What one pool was recommended and since when things have been as they are."""

    recommendations: tuple[tuple[float, int], ...] = ()
    """(instant, workers) within the scale-down window, oldest first."""
    rise_since: float | None = None
    idle_since: float | None = None
    unschedulable_since: float | None = None
    startups: tuple[float, ...] = ()
    """Of the last 20 pods, oldest first."""
    build: str = ""
    registered: tuple[str, ...] | None = None
    """Types that this build's workers registered; None = none was seen yet."""
    registered_at: float = 0.0


class QueueMemory(msgspec.Struct, frozen=True, kw_only=True):
    started_at: float | None = None
    """Instant of the first decision."""
    read_at: float | None = None
    """Instant of the last successful read."""
    failures: int = 0
    """Failed reads in a row."""
    types: Mapping[str, TypeMemory] = {}
    engines: Mapping[str, Mapping[str, Counted]] = {}
    """Counters of each engine at the last read."""
    pools: Mapping[str, PoolMemory] = {}
