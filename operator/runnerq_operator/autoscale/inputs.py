"""What a decision is made from: one read of the demand, the pools' workers, the user's settings.

All of it is data that was read elsewhere. Durations are seconds; `now` is a monotonic instant in seconds
whose zero means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from runnerq_operator.model.pool import PoolEntry


class TypeLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What one activity type asks for, of a whole queue or of one pool's share of it."""

    type: str
    claimable: int = 0
    capped: bool = False
    """`claimable` is a lower bound."""
    oldest_seconds: float | None = None
    """Age of the oldest *claimable* activity; None when there is none."""
    running: int = 0
    due: int = 0
    """Becomes claimable within the horizon that was asked for."""


class Counted(msgspec.Struct, frozen=True):
    """Monotone counters of one type in one engine process."""

    started: int = 0
    finished: int = 0
    run_seconds: float = 0.0
    """Summed over `finished`."""


class EngineReading(msgspec.Struct, frozen=True, kw_only=True):
    """One engine process as the backend knows it."""

    engine_id: str
    pool: str = ""
    types: tuple[str, ...] = ()
    busy: int = 0
    alive: bool = True
    """Not stopped, and its heartbeat is fresh."""
    counters: Mapping[str, Counted] = {}


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One read of a queue's demand that succeeded and is fresh."""

    types: tuple[TypeLoad, ...] = ()
    engines: tuple[EngineReading, ...] = ()


class PoolInputs(msgspec.Struct, frozen=True, kw_only=True):
    """One pool: its entry in the spec, and its workers as the fleet sees them."""

    entry: PoolEntry
    replicas: int
    """What was last asked of the fleet."""
    unschedulable: int = 0
    """Pods among them that cannot start."""
    requested_replicas: int | None = None
    """What a person asked for by hand; counts in mode Disabled only."""
    build: str = ""
    """Names the code of the workers. When it changes, what they register may have changed too."""
    startups: tuple[float, ...] = ()
    """How long the pods that became ready since the last decision took from created to ready."""


class Connections(msgspec.Struct, frozen=True, kw_only=True):
    """The backend's connections: how many all workers may hold, and how many each takes."""

    most: int
    per_worker: int


class QueueInputs(msgspec.Struct, frozen=True, kw_only=True):
    now: float
    reading: Reading | None
    """None: the demand could not be read, or what was read is stale. Never an empty reading."""
    pools: tuple[PoolInputs, ...]
    slo_seconds: float = 60.0
    max_replicas: int | None = None
    """Budget of all pools together."""
    connections: Connections | None = None
    paused: bool = False
