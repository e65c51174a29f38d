"""Sharing whole numbers: a type among the pools that serve it, a budget among the pools that want it.

Every share is a whole number and the shares add up to the whole, so nothing is counted twice and nothing
is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from runnerq.patterns import matches
from runnerq_operator.autoscale.inputs import PoolInputs, Reading, TypeLoad
from runnerq_operator.autoscale.memory import PoolMemory

REGISTRATION_SECONDS = 600.0
"""How long a pool at zero is held to what its last workers registered. Then its declared patterns count
again, so that code replaced under the same name gets a chance."""


def shares(total: int, weights: Sequence[float]) -> list[int]:
    """`total` split in proportion to the weights, by largest remainder; ties go to the earlier.

    >>> shares(10, [1, 1, 1]), shares(1, [1, 3]), shares(0, [5])
    ([4, 3, 3], [0, 1], [0])
    """
    whole = sum(weights)
    if whole <= 0:
        weights, whole = [1.0] * len(weights), float(len(weights))
    exact = [total * weight / whole for weight in weights]
    result = [int(part) for part in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (result[i] - exact[i], i))
    for index in by_remainder[: total - sum(result)]:
        result[index] += 1
    return result


def within_budget(
    wanted: Sequence[int], least: Sequence[int], weights: Sequence[float], budget: int
) -> list[int]:
    """What each gets of the budget: at least its least, at most what it wanted, the rest by weight.

    What one does not use goes to the others. Only when the leasts alone exceed the budget is it
    exceeded.

    >>> within_budget([10, 10], [0, 0], [1, 3], 8)
    [2, 6]
    >>> within_budget([1, 10], [0, 0], [1, 1], 8)
    [1, 7]
    """
    given = [min(want, low) for want, low in zip(wanted, least, strict=True)]
    left = budget - sum(given)
    while left > 0:
        hungry = [i for i, want in enumerate(wanted) if given[i] < want]
        if not hungry:
            break
        # One at a time to whoever has least for its weight: 10,000 at most, and exact.
        index = min(hungry, key=lambda i: ((given[i] + 1) / weights[i], i))
        given[index] += 1
        left -= 1
    return given


def pool_loads(
    reading: Reading, pools: Sequence[PoolInputs], memories: Mapping[str, PoolMemory], now: float
) -> dict[str, tuple[TypeLoad, ...]]:
    """Each pool's part of the queue's load. A type that no pool serves is in none."""
    loads: dict[str, list[TypeLoad]] = {pool.entry.name: [] for pool in pools}
    for load in reading.types:
        serving = [
            pool
            for pool in pools
            if serves(pool, memories.get(pool.entry.name, PoolMemory()), load.type, now)
        ]
        for pool, part in _divided(load, serving, reading):
            loads[pool.entry.name].append(part)
    return {name: tuple(parts) for name, parts in loads.items()}


def serves(pool: PoolInputs, memory: PoolMemory, activity_type: str, now: float) -> bool:
    """Whether the pool's workers run this type: its patterns mean it, and its build registers it as
    far as that is known."""
    if not any(matches(pattern, activity_type) for pattern in pool.entry.activity_types):
        return False
    known = memory.registered is not None and memory.build == pool.build
    if not known or now - memory.registered_at > REGISTRATION_SECONDS:
        return True
    return activity_type in (memory.registered or ())


def _divided(
    load: TypeLoad, serving: Sequence[PoolInputs], reading: Reading
) -> list[tuple[PoolInputs, TypeLoad]]:
    if len(serving) < 2:
        return [(pool, load) for pool in serving]
    weights = [float(pool.entry.weight) for pool in serving]
    busy = [_busy(reading, pool.entry.name, load.type) for pool in serving]
    claimable, due = shares(load.claimable, weights), shares(load.due, weights)
    running = shares(load.running, busy if any(busy) else weights)
    return [
        (
            pool,
            msgspec.structs.replace(
                load,
                claimable=claimable[i],
                due=due[i],
                running=running[i],
                oldest_seconds=load.oldest_seconds if claimable[i] else None,
            ),
        )
        for i, pool in enumerate(serving)
    ]


def _busy(reading: Reading, pool: str, activity_type: str) -> float:
    """Slots in use by the pool's engines that run the type: where its running work most likely is."""
    return float(
        sum(
            engine.busy
            for engine in reading.engines
            if engine.alive and engine.pool == pool and activity_type in engine.types
        )
    )
