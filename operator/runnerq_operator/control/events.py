"""What happened between two passes, as events: at most one per decision, each once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from runnerq_operator.autoscale.decide import Decision
from runnerq_operator.control.observation import Observation, PoolObservation
from runnerq_operator.control.report import EventType, QueueEvent
from runnerq_operator.control.verdicts import some_of
from runnerq_operator.model.queue import CoveragePolicy
from runnerq_operator.model.scaling import ScalingMode


class EventMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What was so at the last pass, as far as an event would be made of its change."""

    targets: Mapping[str, int] = {}
    held: bool = False
    fallback: Mapping[str, bool] = {}
    late: bool = False
    uncovered: tuple[str, ...] = ()
    refused: Mapping[str, str] = {}
    requested: Mapping[str, int | None] = {}


def events(
    observation: Observation,
    memory: EventMemory,
    mismatched: Mapping[str, tuple[str, ...]],
) -> tuple[EventMemory, tuple[QueueEvent, ...]]:
    """The new memory, and what people should be told."""
    after = _noted(observation, memory)
    told = (
        *_scaling(observation, memory),
        *_demand(observation, memory, after),
        *_slo(observation, memory, after),
        *_coverage(observation, memory, after),
        *_templates(memory, after),
        *_by_hand(observation, memory),
        *_mismatches(mismatched),
    )
    return after, told


def _noted(observation: Observation, memory: EventMemory) -> EventMemory:
    known = observation.read.demand is not None
    pools = [pool for pool in observation.pools if pool.entry is not None]
    decisions = observation.decisions
    ignored = observation.desired.spec.coverage.policy is CoveragePolicy.IGNORE
    return EventMemory(
        targets={name: decision.replicas for name, decision in decisions.items()},
        held=not known,
        fallback={name: decision.fallback for name, decision in decisions.items()},
        late=_late(observation) if known else memory.late,
        uncovered=() if ignored else (observation.uncovered if known else memory.uncovered),
        refused={pool.key.pool: pool.refused for pool in pools if pool.refused},
        requested={pool.key.pool: _requested(pool) for pool in pools},
    )


def _scaling(observation: Observation, memory: EventMemory) -> Iterator[QueueEvent]:
    for name, decision in observation.decisions.items():
        before = memory.targets.get(name, decision.current)
        if decision.replicas != before:
            yield QueueEvent(
                reason=_direction(before, decision.replicas),
                message=decision.summary,
                pool=name,
            )


def _direction(before: int, after: int) -> str:
    if after > before:
        return "ActivatedFromZero" if before == 0 else "ScaledUp"
    return "ScaledToZero" if after == 0 else "ScaledDown"


def _demand(
    observation: Observation, memory: EventMemory, after: EventMemory
) -> Iterator[QueueEvent]:
    if after.held and not memory.held:
        yield QueueEvent(
            reason="ScalingHeld",
            message=f"the demand cannot be read: {observation.read.message}",
            type=EventType.WARNING,
        )
    for name, active in after.fallback.items():
        if active and not memory.fallback.get(name, False):
            yield QueueEvent(
                reason="FallbackEntered",
                message=observation.decisions[name].summary,
                type=EventType.WARNING,
                pool=name,
            )
        elif memory.fallback.get(name, False) and not active:
            yield QueueEvent(reason="FallbackLeft", message="the demand can be read", pool=name)


def _slo(observation: Observation, memory: EventMemory, after: EventMemory) -> Iterator[QueueEvent]:
    allowed = observation.desired.spec.slo.max_wait_seconds
    if after.late and not memory.late:
        yield QueueEvent(
            reason="SLOBreached",
            message=f"an activity has waited longer than {allowed} s",
            type=EventType.WARNING,
        )
    elif memory.late and not after.late:
        yield QueueEvent(
            reason="SLORecovered", message=f"nothing waits longer than {allowed} s any more"
        )


def _coverage(
    _observation: Observation, memory: EventMemory, after: EventMemory
) -> Iterator[QueueEvent]:
    lost = set(after.uncovered) - set(memory.uncovered)
    if lost:
        yield QueueEvent(
            reason="CoverageLost",
            message=f"no pool runs: {some_of(lost)}",
            type=EventType.WARNING,
        )
    elif memory.uncovered and not after.uncovered:
        yield QueueEvent(reason="CoverageRestored", message="every type has workers")


def _templates(memory: EventMemory, after: EventMemory) -> Iterator[QueueEvent]:
    for name, message in after.refused.items():
        if memory.refused.get(name) != message:
            yield QueueEvent(
                reason="TemplateInvalid", message=message, type=EventType.WARNING, pool=name
            )


def _by_hand(observation: Observation, memory: EventMemory) -> Iterator[QueueEvent]:
    for pool in observation.pools:
        name, requested = pool.key.pool, _requested(pool)
        if pool.entry is None or pool.entry.scaling.mode is ScalingMode.DISABLED:
            continue
        if requested is not None and memory.requested.get(name) != requested:
            yield QueueEvent(
                reason="ManualScaleIgnored",
                message=f"{requested} replicas were asked for by hand, but scaling.mode is "
                f"{pool.entry.scaling.mode.value}; set it to Disabled to scale by hand",
                type=EventType.WARNING,
                pool=name,
            )


def _mismatches(mismatched: Mapping[str, tuple[str, ...]]) -> Iterator[QueueEvent]:
    for name, pods in mismatched.items():
        yield QueueEvent(
            reason="VictimMismatch",
            message=f"others left in place of {', '.join(pods)}, which work on",
            type=EventType.WARNING,
            pool=name,
        )


def _late(observation: Observation) -> bool:
    allowed = observation.desired.spec.slo.max_wait_seconds
    return any(_oldest(decision) > allowed for decision in observation.decisions.values())


def _oldest(decision: Decision) -> float:
    return max((load.oldest_seconds or 0.0 for load in decision.load), default=0.0)


def _requested(pool: PoolObservation) -> int | None:
    return pool.fleet.requested_replicas if pool.fleet else None
