"""Rates from counters: how long a type runs and how fast it arrives.

Engines report counters that only grow, each process from zero. What was counted between two reads is
summed over engines; an engine seen for the first time after the operator started counts from its own
zero, one that was there already only from then on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from runnerq_operator.autoscale.inputs import Counted, Reading
from runnerq_operator.autoscale.memory import QueueMemory, TypeMemory

ENOUGH_SAMPLES = 20
"""Before that many runs the user's guess is better than the mean."""
_REMEMBERED_RUNS = 200.0
_SMOOTHING_SECONDS = 30.0
"""Time constant of the arrival rate: heartbeats, and so counters, come every 5 s."""
_FAST_START_SECONDS = 10.0
"""Start-up time that is assumed before one was measured."""


def measured(memory: QueueMemory, reading: Reading, now: float) -> QueueMemory:
    """The memory after one more read."""
    first = memory.read_at is None
    elapsed = 0.0 if memory.read_at is None else now - memory.read_at
    grown = _growth(memory, reading, baseline=first)
    loads = {load.type: load for load in reading.types}
    types: dict[str, TypeMemory] = {}
    for name in memory.types.keys() | loads.keys() | grown.keys():
        before = memory.types.get(name, TypeMemory())
        load = loads.get(name)
        claimable = (None if load.capped else load.claimable) if load else 0
        types[name] = _type_after(before, grown.get(name, Counted()), claimable, elapsed)
    engines = {engine.engine_id: engine.counters for engine in reading.engines}
    return msgspec.structs.replace(memory, read_at=now, types=types, engines=engines)


def _growth(memory: QueueMemory, reading: Reading, *, baseline: bool) -> dict[str, Counted]:
    """What was counted since the last read, by type, over all engines."""
    total: dict[str, Counted] = {}
    for engine in reading.engines:
        before: Mapping[str, Counted] = memory.engines.get(engine.engine_id, {})
        if baseline:
            before = engine.counters
        for name, count in engine.counters.items():
            old, summed = before.get(name, Counted()), total.get(name, Counted())
            total[name] = Counted(
                started=summed.started + max(0, count.started - old.started),
                finished=summed.finished + max(0, count.finished - old.finished),
                run_seconds=summed.run_seconds + max(0.0, count.run_seconds - old.run_seconds),
            )
    return total


def _type_after(
    before: TypeMemory, grown: Counted, claimable: int | None, elapsed: float
) -> TypeMemory:
    finished = before.finished + grown.finished
    run_seconds = before.run_seconds + grown.run_seconds
    if finished > _REMEMBERED_RUNS:
        run_seconds *= _REMEMBERED_RUNS / finished
        finished = _REMEMBERED_RUNS
    rate = before.arrivals_per_second
    if elapsed > 0:
        # What started has left the backlog; what arrived beyond that is how much the backlog grew.
        grew = 0 if claimable is None or before.claimable is None else claimable - before.claimable
        share = 1 - math.exp(-elapsed / _SMOOTHING_SECONDS)
        rate += share * ((grown.started + grew) / elapsed - rate)
    return TypeMemory(
        samples=before.samples + grown.finished,
        finished=finished,
        run_seconds=run_seconds,
        arrivals_per_second=rate,
        claimable=claimable,
        started_now=grown.started,
    )


def service_seconds(memory: QueueMemory, activity_type: str, *, expected: float) -> float:
    """Mean run time of a type; the expected one until enough runs were seen."""
    known = memory.types.get(activity_type)
    if known is None or known.samples < ENOUGH_SAMPLES:
        return expected
    return max(known.run_seconds / known.finished, 0.001)


def arrivals_per_second(memory: QueueMemory, activity_type: str) -> float:
    known = memory.types.get(activity_type)
    return max(0.0, known.arrivals_per_second) if known else 0.0


def startup_seconds(startups: tuple[float, ...]) -> float:
    """Nine of ten pods were ready within this; a guess before any was seen."""
    if not startups:
        return _FAST_START_SECONDS
    ranked = sorted(startups)
    return ranked[math.ceil(0.9 * len(ranked)) - 1]
