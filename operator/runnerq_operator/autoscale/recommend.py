"""From a pool's load to the slots it needs, term by term. No history here and no limits.

In words: be able to run what arrives (Little's law), with some headroom if a new worker would come too
late; work off what waits beyond the free slots before the SLO breaks; be there for what becomes due.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from runnerq_operator.autoscale.explanation import Terms
from runnerq_operator.autoscale.inputs import PoolInputs, TypeLoad
from runnerq_operator.autoscale.measure import (
    arrivals_per_second,
    service_seconds,
    startup_seconds,
)
from runnerq_operator.autoscale.memory import PoolMemory, QueueMemory

AIM = 0.6
"""The share of the SLO that a wait may take before the rest is kept as a reserve."""


def recommend(
    pool: PoolInputs,
    loads: Sequence[TypeLoad],
    memory: QueueMemory,
    *,
    slo_seconds: float,
    sharing: dict[str, float],
) -> Terms:
    """The terms of one pool. `sharing` says which part of a type's arrivals is this pool's."""
    known = memory.pools.get(pool.entry.name, PoolMemory())
    expected = float(pool.entry.scaling.expected_seconds)
    startup = startup_seconds(known.startups)
    tick = float(pool.entry.scaling.behavior.tick_seconds)
    aim = max(AIM * slo_seconds - startup, tick)
    ages = [load.oldest_seconds for load in loads if load.oldest_seconds is not None]
    oldest = max(ages, default=None)
    # What has waited has less time left; yet a backlog that is old already is not worth any number
    # of workers, so at most four times what a fresh one of its size gets.
    drain_seconds = max(aim - (oldest or 0.0), aim / 4, tick)

    claimable = sum(load.claimable for load in loads)
    running = sum(load.running for load in loads)
    due = sum(load.due for load in loads)
    capacity = max(0, pool.replicas - pool.unschedulable) * pool.entry.concurrency
    free = max(0, capacity - running)
    excess = max(0, claimable - free) / claimable if claimable else 0.0

    arrivals = steady = waiting_work = due_work = 0.0
    for load in loads:
        seconds = service_seconds(memory, load.type, expected=expected)
        rate = arrivals_per_second(memory, load.type) * sharing.get(load.type, 1.0)
        arrivals += rate
        steady += rate * seconds
        waiting_work += load.claimable * seconds
        due_work += load.due * seconds
    total = arrivals + claimable + due
    seconds_per_activity = (steady + waiting_work + due_work) / total if total > 0 else expected

    # A worker that would be there in time needs no reserve in advance.
    late = min(1.0, startup / (AIM * slo_seconds))
    return Terms(
        claimable=claimable,
        running=running,
        due=due,
        oldest_seconds=oldest,
        arrivals_per_second=arrivals,
        service_seconds=seconds_per_activity,
        startup_seconds=startup,
        drain_seconds=drain_seconds,
        slots_per_worker=pool.entry.concurrency,
        capacity=capacity,
        steady=steady,
        headroom=0.5 * math.sqrt(steady) * late,
        schedule=due_work / aim,
        drain=excess * waiting_work / drain_seconds,
        hold=running + min(claimable, free),
    )
