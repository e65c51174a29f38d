"""Assembles the statuses of a queue and its pools from an observation. Pure.

A condition keeps its time while its status stays; figures are as last read, and stay as they were while
nothing could be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from runnerq_operator.autoscale.decide import Decision
from runnerq_operator.autoscale.inputs import TypeLoad
from runnerq_operator.control.observation import Observation, PoolObservation
from runnerq_operator.control.plan import decision_detail, target_of
from runnerq_operator.control.verdicts import Verdict, pool_verdicts, verdicts
from runnerq_operator.model import POOL_LABEL, QUEUE_LABEL
from runnerq_operator.model.conditions import CONDITIONS, POOL_CONDITIONS
from runnerq_operator.model.pool import PoolEntry
from runnerq_operator.model.queue import CoveragePolicy
from runnerq_operator.model.status import (
    Condition,
    ConditionStatus,
    DecisionStatus,
    RunnerQueueStatus,
    RunnerWorkerPoolStatus,
)

_MESSAGE_LIMIT = 2048
_SUMMARY_LIMIT = 1024
_COVERAGE_LIMIT = 256

_FIGURES = (
    "backlog",
    "oldestSeconds",
    "oldest",
    "running",
    "busySlots",
    "reason",
    "clampedBy",
)


def queue_status(observation: Observation, previous: RunnerQueueStatus | None) -> RunnerQueueStatus:
    """The status of the queue after this pass."""
    desired = observation.desired
    pools = [pool for pool in observation.pools if pool.entry is not None]
    loads = [load for one in observation.decisions.values() for load in one.load]
    uncounted = _outside(observation, loads)
    known = observation.read.demand is not None
    backlog, oldest, running = _figures([*loads, *uncounted])
    before = previous or RunnerQueueStatus()
    return RunnerQueueStatus(
        observed_generation=desired.generation,
        conditions=_conditions(observation, verdicts(observation), before.conditions),
        backlog=backlog if known else before.backlog,
        oldest_seconds=oldest if known else before.oldest_seconds,
        oldest=_duration(oldest) if known else before.oldest,
        running=running if known else before.running,
        backend=observation.backend_kind,
        pools=len(desired.spec.pools),
        workers=sum(pool.fleet.ready for pool in pools if pool.fleet),
        desired_workers=sum(target_of(pool, observation.decisions) for pool in pools),
        coverage=_coverage(observation) if known else before.coverage,
        decision=_latest(observation, before.decision),
    )


def pool_status(
    observation: Observation, pool: PoolObservation, previous: RunnerWorkerPoolStatus | None
) -> RunnerWorkerPoolStatus:
    """The status of one pool of the spec after this pass."""
    before = previous or RunnerWorkerPoolStatus()
    decision = observation.decisions.get(pool.key.pool)
    known = observation.read.demand is not None and decision is not None
    backlog, oldest, running = _figures(decision.load if decision else ())
    return RunnerWorkerPoolStatus(
        observed_generation=observation.desired.generation,
        conditions=_conditions(
            observation, pool_verdicts(observation, pool, POOL_CONDITIONS), before.conditions
        ),
        backlog=backlog if known else before.backlog,
        oldest_seconds=oldest if known else before.oldest_seconds,
        oldest=_duration(oldest) if known else before.oldest,
        running=running if known else before.running,
        selector=f"{QUEUE_LABEL}={pool.key.queue},{POOL_LABEL}={pool.key.pool}",
        replicas=len(pool.live),
        desired_replicas=target_of(pool, observation.decisions),
        ready_replicas=pool.fleet.ready if pool.fleet else 0,
        busy_slots=pool.busy if known else before.busy_slots,
        reason=decision.reason if decision else before.reason,
        clamped_by=decision.explanation.clamped_by if decision else before.clamped_by,
        types=",".join(pool.entry.activity_types if pool.entry else ())[:1024],
        image=pool.fleet.image if pool.fleet else "",
        decision=_decision_status(observation, pool.entry, decision, before.decision),
    )


def initial_status(generation: int, backend: str, pools: int, at: datetime) -> RunnerQueueStatus:
    """What is shown until the first pass has ended: everything unknown."""
    return RunnerQueueStatus(
        observed_generation=generation,
        backend=backend,
        pools=pools,
        conditions=tuple(
            Condition(
                type=name,
                status=ConditionStatus.UNKNOWN,
                reason="NotObservedYet",
                last_transition_time=at,
                observed_generation=generation,
            )
            for name, reasons in CONDITIONS.items()
            if "NotObservedYet" in reasons
        ),
    )


def standing(status: RunnerQueueStatus | RunnerWorkerPoolStatus) -> dict[str, Any]:
    """The status without what changes at every read. Two that agree in this need not be written
    at once."""
    said: dict[str, Any] = msgspec.to_builtins(status)
    for figure in _FIGURES:
        said.pop(figure, None)
    said["conditions"] = [
        (condition.type, condition.status, condition.reason) for condition in status.conditions
    ]
    decision = status.decision
    said["decision"] = decision and (decision.pool, decision.from_replicas, decision.to_replicas)
    return said


def _conditions(
    observation: Observation, judged: Mapping[str, Verdict], before: Sequence[Condition]
) -> tuple[Condition, ...]:
    known = {condition.type: condition for condition in before}
    result: list[Condition] = []
    for name, verdict in judged.items():
        old = known.get(name)
        kept = old is not None and old.status is verdict.status
        result.append(
            Condition(
                type=name,
                status=verdict.status,
                reason=verdict.reason,
                message=verdict.message[:_MESSAGE_LIMIT],
                last_transition_time=old.last_transition_time
                if kept and old
                else observation.at.replace(microsecond=0),
                observed_generation=observation.desired.generation,
            )
        )
    return tuple(result)


def _figures(loads: Sequence[TypeLoad]) -> tuple[int, int | None, int]:
    """(backlog, oldest age in whole seconds, running) of some loads."""
    ages = [load.oldest_seconds for load in loads if load.oldest_seconds is not None]
    return (
        sum(load.claimable for load in loads),
        int(max(ages)) if ages else None,
        sum(load.running for load in loads),
    )


def _outside(observation: Observation, loads: Sequence[TypeLoad]) -> list[TypeLoad]:
    """Load of types that no pool serves: nobody's demand, but the queue's backlog all the same."""
    demand = observation.read.demand
    served = {load.type for load in loads}
    return [
        TypeLoad(
            type=one.type,
            claimable=one.claimable,
            running=one.running,
            oldest_seconds=None
            if one.oldest_claimable_age_ms is None
            else one.oldest_claimable_age_ms / 1000,
        )
        for one in (demand.types if demand else ())
        if one.type not in served
    ]


def _coverage(observation: Observation) -> str:
    if observation.desired.spec.coverage.policy is CoveragePolicy.IGNORE:
        return "Ignored"
    if not observation.uncovered:
        return "Complete"
    return f"Missing: {', '.join(observation.uncovered)}"[:_COVERAGE_LIMIT]


def _latest(observation: Observation, before: DecisionStatus | None) -> DecisionStatus | None:
    """The decision of this pass that changed a pool; without one, the last that did."""
    entries = {pool.key.pool: pool.entry for pool in observation.pools}
    for decision in observation.decisions.values():
        if decision.replicas != decision.current or before is None:
            before = _decision_status(observation, entries.get(decision.pool), decision, None)
    return before


def _decision_status(
    observation: Observation,
    entry: PoolEntry | None,
    decision: Decision | None,
    before: DecisionStatus | None,
) -> DecisionStatus | None:
    if entry is None or decision is None:
        return before
    at = (observation.read.as_of or observation.at).replace(microsecond=0)
    made = DecisionStatus(
        pool=decision.pool,
        at=at,
        from_replicas=decision.current,
        to_replicas=decision.replicas,
        reason=decision.reason,
        summary=decision.summary[:_SUMMARY_LIMIT],
        explanation=decision_detail(entry, decision),
    )
    # The same decision again is no news: its time is that of when it was first made.
    if before is not None and msgspec.structs.replace(made, at=before.at) == before:
        return before
    return made


def _duration(seconds: int | None) -> str:
    """Seconds as people write them.

    >>> [_duration(s) for s in (None, 5, 65, 3700, 90_000)]
    ['', '5s', '1m5s', '1h1m', '1d1h']
    """
    if seconds is None:
        return ""
    for size, unit, smaller, small_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size}{unit}" + (f"{rest}{small_unit}" if rest else "")
    return f"{seconds}s"
