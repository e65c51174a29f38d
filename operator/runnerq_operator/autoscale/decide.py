"""decide(): from what is known to how many workers each pool of one queue should have, and why.

The only entry. Pure: it reads no clock and does no I/O, so the operator, `runnerq dev` and the property
tests run the same code. It decides for a whole queue at once because its pools share a budget and may
share activity types.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from runnerq_operator.autoscale.explanation import Explanation, Number, Step, StepKind, Terms
from runnerq_operator.autoscale.inputs import PoolInputs, QueueInputs, Reading, TypeLoad
from runnerq_operator.autoscale.measure import measured, startup_seconds
from runnerq_operator.autoscale.memory import PoolMemory, QueueMemory
from runnerq_operator.autoscale.recommend import recommend
from runnerq_operator.autoscale.split import pool_loads, serves, within_budget
from runnerq_operator.autoscale.stabilise import stabilise
from runnerq_operator.model.scaling import ScalingMode

_REMEMBERED_STARTUPS = 20
_NEGLIGIBLE_RATE = 1e-3
"""Arrivals per second below which a type without any work is not looked at."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do about one pool."""

    pool: str
    current: int
    replicas: int
    """What the fleet is to be set to."""
    recommended: int
    """What scaling would do; differs from `replicas` when paused, DryRun or Disabled."""
    explanation: Explanation
    load: tuple[TypeLoad, ...] = ()
    """The pool's part of the queue's load; empty when it is unknown."""
    startup_seconds: float = 0.0
    startup_measured: bool = False

    @property
    def reason(self) -> str:
        return self.explanation.reason

    @property
    def summary(self) -> str:
        return self.explanation.summary()

    @property
    def fallback(self) -> bool:
        return any(step.name == "Fallback" for step in self.explanation.steps)


class _Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One pool's number, with what it came from."""

    pool: PoolInputs
    number: Number
    terms: Terms | None = None
    load: tuple[TypeLoad, ...] = ()
    recommended: int = 0


def decide(memory: QueueMemory, inputs: QueueInputs) -> tuple[QueueMemory, dict[str, Decision]]:
    """The new memory and one decision per pool, by its name."""
    now = inputs.now
    if memory.started_at is None:
        memory = msgspec.structs.replace(memory, started_at=now)
    memory = _with_pools(memory, inputs)
    if inputs.reading is None:
        memory = msgspec.structs.replace(memory, failures=memory.failures + 1)
        drafts = [_held(pool, memory.failures) for pool in inputs.pools]
    else:
        memory = measured(memory, inputs.reading, now)
        memory = msgspec.structs.replace(memory, failures=0)
        memory = _registered(memory, inputs.reading, inputs.pools, now)
        memory, drafts = _recommended(memory, inputs, inputs.reading)
    drafts = _shared(drafts, inputs)
    return memory, {draft.pool.entry.name: _decision(draft, memory, inputs) for draft in drafts}


def _with_pools(memory: QueueMemory, inputs: QueueInputs) -> QueueMemory:
    """Pools that are gone are forgotten; new start-up times are remembered."""
    pools: dict[str, PoolMemory] = {}
    for pool in inputs.pools:
        known = memory.pools.get(pool.entry.name, PoolMemory())
        startups = (*known.startups, *pool.startups)[-_REMEMBERED_STARTUPS:]
        pools[pool.entry.name] = msgspec.structs.replace(known, startups=startups)
    return msgspec.structs.replace(memory, pools=pools)


def _registered(
    memory: QueueMemory, reading: Reading, pools: Sequence[PoolInputs], now: float
) -> QueueMemory:
    """Which types each pool's live workers have registered."""
    updated = dict(memory.pools)
    for pool in pools:
        name = pool.entry.name
        engines = [engine for engine in reading.engines if engine.alive and engine.pool == name]
        if engines:
            types = sorted({one for engine in engines for one in engine.types})
            updated[name] = msgspec.structs.replace(
                memory.pools[name], registered=tuple(types), registered_at=now, build=pool.build
            )
    return msgspec.structs.replace(memory, pools=updated)


def _held(pool: PoolInputs, failures: int) -> _Draft:
    """Nothing is known: stay, or use the fallback."""
    number = Number(pool.replicas)
    fallback = pool.entry.scaling.fallback
    if fallback is not None and failures >= fallback.after_failures:
        number = number.at_least(fallback.replicas, "Fallback")
    return _Draft(pool=pool, number=number)


def _recommended(
    memory: QueueMemory, inputs: QueueInputs, reading: Reading
) -> tuple[QueueMemory, list[_Draft]]:
    flowing = _with_flowing_types(reading, memory)
    loads = pool_loads(flowing, inputs.pools, memory.pools, inputs.now)
    drafts: list[_Draft] = []
    remembered = dict(memory.pools)
    for pool in inputs.pools:
        name = pool.entry.name
        terms = recommend(
            pool,
            loads[name],
            memory,
            slo_seconds=inputs.slo_seconds,
            sharing=_sharing(pool, inputs, memory, loads[name]),
        )
        remembered[name], number = stabilise(
            pool,
            remembered[name],
            terms,
            now=inputs.now,
            started_at=memory.started_at or 0.0,
            active=any(memory.types[load.type].started_now for load in loads[name]),
            slo_seconds=inputs.slo_seconds,
        )
        drafts.append(_Draft(pool=pool, number=number, terms=terms, load=loads[name]))
    return msgspec.structs.replace(memory, pools=remembered), drafts


def _with_flowing_types(reading: Reading, memory: QueueMemory) -> Reading:
    """Types that keep arriving count also in the moment when none of them is there."""
    seen = {load.type for load in reading.types}
    absent = tuple(
        TypeLoad(type=name)
        for name, known in sorted(memory.types.items())
        if name not in seen
        and (known.arrivals_per_second > _NEGLIGIBLE_RATE or known.started_now > 0)
    )
    return msgspec.structs.replace(reading, types=(*reading.types, *absent))


def _sharing(
    pool: PoolInputs, inputs: QueueInputs, memory: QueueMemory, loads: Sequence[TypeLoad]
) -> dict[str, float]:
    """The pool's part of the arrivals of each type: by weight among those that serve it."""
    parts: dict[str, float] = {}
    for load in loads:
        weights = [
            other.entry.weight
            for other in inputs.pools
            if serves(other, memory.pools[other.entry.name], load.type, inputs.now)
        ]
        parts[load.type] = pool.entry.weight / sum(weights)
    return parts


def _shared(drafts: Sequence[_Draft], inputs: QueueInputs) -> list[_Draft]:
    """The user's limits, which outrank all of the above: min and max, the budget, the mode."""
    fixed = [_fixed(draft.pool, inputs) for draft in drafts]
    numbers = [
        draft.number.at_least(draft.pool.entry.scaling.min_replicas, "MinReplicas").at_most(
            draft.pool.entry.scaling.max_replicas, "MaxReplicas"
        )
        for draft in drafts
    ]
    least = [_least(draft.pool, known=inputs.reading is not None) for draft in drafts]
    weights = [float(draft.pool.entry.weight) for draft in drafts]
    for why, budget in _budgets(inputs).items():
        given = within_budget(
            [
                fix.value if fix else number.replicas
                for fix, number in zip(fixed, numbers, strict=True)
            ],
            [fix.value if fix else low for fix, low in zip(fixed, least, strict=True)],
            weights,
            budget,
        )
        numbers = [
            number if fix else number.at_most(most, why)
            for number, fix, most in zip(numbers, fixed, given, strict=True)
        ]
    return [
        msgspec.structs.replace(
            draft,
            recommended=number.replicas,
            number=number.exactly(fix.value, fix.name) if fix else number,
        )
        for draft, number, fix in zip(drafts, numbers, fixed, strict=True)
    ]


def _least(pool: PoolInputs, *, known: bool) -> int:
    """What a budget never takes away: the minimum, and while the demand is unknown what there is."""
    scaling = pool.entry.scaling
    held = 0 if known else min(pool.replicas, scaling.max_replicas)
    return max(scaling.min_replicas, held)


def _budgets(inputs: QueueInputs) -> dict[str, int]:
    budgets: dict[str, int] = {}
    if inputs.max_replicas is not None:
        budgets["QueueBudget"] = inputs.max_replicas
    if inputs.connections is not None:
        allowed = inputs.connections.most // inputs.connections.per_worker
        budgets["BackendConnections"] = allowed
    return budgets


def _fixed(pool: PoolInputs, inputs: QueueInputs) -> Step | None:
    """Why and at what number scaling keeps its hands off; None when it does not."""
    match pool.entry.scaling.mode:
        case ScalingMode.DISABLED:
            by_hand = pool.requested_replicas
            value = pool.replicas if by_hand is None else by_hand
            return Step("Disabled", StepKind.SET, value)
        case ScalingMode.DRY_RUN:
            return Step("DryRun", StepKind.SET, pool.replicas)
        case ScalingMode.AUTO:
            return Step("Paused", StepKind.SET, pool.replicas) if inputs.paused else None


def _decision(draft: _Draft, memory: QueueMemory, inputs: QueueInputs) -> Decision:
    known = memory.pools[draft.pool.entry.name].startups
    return Decision(
        pool=draft.pool.entry.name,
        current=draft.pool.replicas,
        replicas=draft.number.replicas,
        recommended=draft.recommended,
        explanation=Explanation(
            current=draft.pool.replicas,
            terms=draft.terms,
            steps=draft.number.steps,
            replicas=draft.number.replicas,
            slo_seconds=inputs.slo_seconds,
            failures=memory.failures,
        ),
        load=draft.load,
        startup_seconds=startup_seconds(known),
        startup_measured=bool(known),
    )
