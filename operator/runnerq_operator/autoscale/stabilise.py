"""Keeps the number from jumping: the steps between what was recommended and what is done.

Up is quick and down is slow, because a missing worker breaks the SLO and a spare one costs little. After
a start of the operator nothing shrinks for one window: what was recommended before is not known.
"""

from __future__ import annotations

import msgspec

from runnerq_operator.autoscale.explanation import Number, Terms
from runnerq_operator.autoscale.inputs import PoolInputs
from runnerq_operator.autoscale.memory import PoolMemory

UNSCHEDULABLE_SECONDS = 60.0
"""How long workers may fail to start before no more of them are asked for."""
FREE_RISE = 20
"""Workers that may be added in one step whatever the current number."""
_URGENT = 0.5
"""Share of the SLO that the oldest may have waited before a small rise is followed at once."""


def stabilise(
    pool: PoolInputs,
    memory: PoolMemory,
    terms: Terms,
    *,
    now: float,
    started_at: float,
    active: bool,
    slo_seconds: float,
) -> tuple[PoolMemory, Number]:
    """The number after all that is not a user's limit. `active`: something started since the last
    read, so the pool was not idle in between even if it is at both ends."""
    memory = _since(memory, pool, terms, now=now, active=active)
    number = _one_or_none(pool, memory, terms, now)
    window = float(pool.entry.scaling.behavior.scale_down_window_seconds)
    recent = [entry for entry in memory.recommendations if now - entry[0] < window]
    rise_since = memory.rise_since
    if number.replicas <= pool.replicas:
        rise_since = None
    elif rise_since is None:
        rise_since = now
    memory = msgspec.structs.replace(
        memory, recommendations=(*recent, (now, number.replicas)), rise_since=rise_since
    )
    if number.replicas < pool.replicas:
        restarted = now - started_at < window
        number = _down(pool, memory, number, restarted=restarted)
    elif number.replicas > pool.replicas:
        urgent = (terms.oldest_seconds or 0.0) >= _URGENT * slo_seconds
        number = _up(pool, memory, number, now=now, urgent=urgent)
    return memory, number


def _one_or_none(pool: PoolInputs, memory: PoolMemory, terms: Terms, now: float) -> Number:
    """Where zero begins: one worker as long as there is work, and for a while after."""
    number = Number(terms.workers)
    if terms.claimable + terms.running + terms.due > 0:
        return number.at_least(1, "Work")
    if pool.replicas == 0:
        return number.exactly(0, "Idle")
    idle_for = 0.0 if memory.idle_since is None else now - memory.idle_since
    if memory.idle_since is not None and (
        idle_for >= pool.entry.scaling.behavior.scale_to_zero_seconds
    ):
        return number.exactly(0, "ScaleToZero")
    return number.at_least(1, "ZeroDelay")


def _down(pool: PoolInputs, memory: PoolMemory, number: Number, *, restarted: bool) -> Number:
    current, behavior = pool.replicas, pool.entry.scaling.behavior
    if restarted:
        return number.at_least(current, "Restarted")
    if number.steps[-1].name == "ScaleToZero":
        return number
    highest = max(count for _, count in memory.recommendations)
    number = number.at_least(min(current, highest), "ScaleDownWindow")
    saved = (current - number.replicas) / current
    if 0 < saved < behavior.scale_down_tolerance_percent / 100:
        return number.at_least(current, "ScaleDownTolerance")
    return number


def _up(
    pool: PoolInputs, memory: PoolMemory, number: Number, *, now: float, urgent: bool
) -> Number:
    current, stuck_since = pool.replicas, memory.unschedulable_since
    if stuck_since is not None and now - stuck_since >= UNSCHEDULABLE_SECONDS:
        return number.at_most(current, "Unschedulable")
    small = current > 0 and number.replicas - current <= max(1, current // 10)
    risen_for = 0.0 if memory.rise_since is None else now - memory.rise_since
    if small and not urgent and risen_for < pool.entry.scaling.behavior.rise_delay_seconds:
        return number.at_most(current, "RiseDelay")
    return number.at_most(current + max(current, FREE_RISE), "RiseStep")


def _since(
    memory: PoolMemory, pool: PoolInputs, terms: Terms, *, now: float, active: bool
) -> PoolMemory:
    """Since when the pool has been idle, and since when its workers could not be placed."""
    idle = not active and terms.claimable + terms.running + terms.due == 0
    idle_since = (now if memory.idle_since is None else memory.idle_since) if idle else None
    stuck_since: float | None = None
    if pool.unschedulable > 0:
        stuck_since = now if memory.unschedulable_since is None else memory.unschedulable_since
    return msgspec.structs.replace(memory, idle_since=idle_since, unschedulable_since=stuck_since)
