"""From what storage answers to what decide() and plan() take. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from runnerq.patterns import matches
from runnerq.storage.records import EngineState, EngineStatus, QueueDemand, TypeCounters
from runnerq_operator.autoscale.inputs import Counted, EngineReading, Reading, TypeLoad
from runnerq_operator.control.observation import EngineView

SILENT_SECONDS = 15.0
"""An engine that has not reported for this long is taken for gone; its claims are taken back."""


def alive(engine: EngineStatus) -> bool:
    return (
        engine.state is not EngineState.STOPPED and engine.heartbeat_age_ms < SILENT_SECONDS * 1000
    )


def reading_of(demand: QueueDemand) -> Reading:
    return Reading(
        types=tuple(
            TypeLoad(
                type=one.type,
                claimable=one.claimable,
                capped=one.claimable_capped,
                oldest_seconds=_seconds(one.oldest_claimable_age_ms),
                running=one.running,
                due=one.due_soon,
            )
            for one in demand.types
        ),
        engines=tuple(
            EngineReading(
                engine_id=str(engine.info.engine_id),
                pool=engine.info.pool,
                types=engine.info.types,
                busy=engine.busy,
                alive=alive(engine),
                counters={name: _counted(count) for name, count in engine.counters.items()},
            )
            for engine in demand.engines
        ),
    )


def engines_of(demand: QueueDemand, pool: str) -> tuple[EngineView, ...]:
    """The pool's engines that are not gone."""
    held = {one.type for one in demand.types if one.running > 0}
    return tuple(
        EngineView(
            engine_id=engine.info.engine_id,
            pod=engine.info.pod,
            busy=engine.busy,
            cordoned=engine.cordoned,
            beat_at=demand.as_of - timedelta(milliseconds=engine.heartbeat_age_ms),
            nothing_runs=held.isdisjoint(engine.info.types),
        )
        for engine in demand.engines
        if engine.info.pool == pool and alive(engine)
    )


def uncovered_types(
    demand: QueueDemand, served: Iterable[str], patterns: Iterable[str], required: Iterable[str]
) -> tuple[str, ...]:
    """Types that wait, or must be served, without a worker or a pool for them.

    `served`: types that are some pool's load. `patterns`: those of all pools, which is all there is
    to go by for a required type that nobody has asked for yet.
    """
    by_engines = {name for engine in demand.engines if alive(engine) for name in engine.info.types}
    known = by_engines | set(served)
    declared = tuple(patterns)
    waiting = {one.type for one in demand.types if one.claimable > 0}
    lost = {name for name in waiting if name not in known}
    lost |= {
        name
        for name in required
        if name not in known and not any(matches(pattern, name) for pattern in declared)
    }
    return tuple(sorted(lost))


def _counted(count: TypeCounters) -> Counted:
    return Counted(count.started, count.finished, count.run_ms / 1000)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
