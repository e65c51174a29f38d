"""plan(): from what a pass observed to what it does. Pure and level-triggered.

It looks at how things are and never at what happened, so a pass that was missed, repeated or cut short
costs nothing but time. The order of the actions matters: who stays may claim again before anything else,
and replicas are lowered last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from runnerq.storage.records import DecisionRecord, PodRecord
from runnerq_operator.autoscale.decide import Decision
from runnerq_operator.control.actions import (
    Action,
    Cordon,
    PreferVictims,
    RecordDecision,
    RecordPods,
    RemovePool,
    SetReplicas,
)
from runnerq_operator.control.drain import DrainMemory, DrainStep, drain_step
from runnerq_operator.control.observation import Observation, PoolObservation
from runnerq_operator.model.pool import PoolEntry

_DEFAULT_DRAIN_SECONDS = 25.0
"""For a pool that the spec no longer names."""
_STANDING = frozenset({"Paused", "DryRun", "Disabled"})
"""Reasons worth a record of their own although the number is the same."""


class PlanMemory(msgspec.Struct, frozen=True, kw_only=True):
    drains: Mapping[str, DrainMemory] = {}
    recorded: Mapping[str, tuple[int, str]] = {}
    """By pool: number and standing reason of the last recorded decision."""
    pods: tuple[PodRecord, ...] | None = None
    """As last recorded; None = not yet."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    actions: tuple[Action, ...]
    memory: PlanMemory
    """What is to be remembered if every action succeeds."""
    mismatched: Mapping[str, tuple[str, ...]] = {}
    """By pool: pods that stayed while others went in their place."""
    draining: bool = False
    """Victims are waited for: look again soon."""


def plan(observation: Observation, memory: PlanMemory) -> Plan:
    """What to do now, and what to remember."""
    steps = {pool.key.pool: _step(pool, observation, memory) for pool in observation.pools}
    actions: list[Action] = []
    for pool in observation.pools:
        actions += _scaling(pool, steps[pool.key.pool], observation)
    after = PlanMemory(
        drains={name: step.memory for name, step in steps.items()},
        recorded=memory.recorded,
        pods=memory.pods,
    )
    if observation.read.demand is not None:
        after, records = _records(observation, after)
        actions += records
    return Plan(
        actions=tuple(actions),
        memory=after,
        mismatched={name: step.mismatched for name, step in steps.items() if step.mismatched},
        draining=any(step.memory.victims or step.memory.leaving for step in steps.values()),
    )


def target_of(pool: PoolObservation, decisions: Mapping[str, Decision]) -> int:
    """How many workers the pool is to have: as decided, none when it is no longer in the spec, and
    what it has when nothing could be decided."""
    if pool.entry is None:
        return 0
    decision = decisions.get(pool.key.pool)
    return pool.replicas if decision is None else decision.replicas


def undone(before: PlanMemory, after: PlanMemory, failed: Iterator[Action]) -> PlanMemory:
    """The memory when some actions did not succeed: they are not remembered as done."""
    drains, recorded, pods = dict(after.drains), dict(after.recorded), after.pods
    for action in failed:
        match action:
            case SetReplicas() | PreferVictims():
                name = action.pool.pool
                leaving = before.drains.get(name, DrainMemory()).leaving
                drains[name] = msgspec.structs.replace(drains[name], leaving=leaving)
            case RecordDecision():
                name = action.record.pool
                if name in before.recorded:
                    recorded[name] = before.recorded[name]
                else:
                    recorded.pop(name, None)
            case RecordPods():
                pods = before.pods
            case Cordon() | RemovePool():
                continue
    return PlanMemory(drains=drains, recorded=recorded, pods=pods)


def _step(pool: PoolObservation, observation: Observation, memory: PlanMemory) -> DrainStep:
    known = memory.drains.get(pool.key.pool, DrainMemory())
    if pool.fleet is None:
        return DrainStep(memory=DrainMemory())
    limit = pool.entry.drain.timeout_seconds if pool.entry else _DEFAULT_DRAIN_SECONDS
    return drain_step(
        pool,
        known,
        target=target_of(pool, observation.decisions),
        drain_seconds=limit,
        now=observation.now,
        as_of=observation.read.as_of,
    )


def _scaling(pool: PoolObservation, step: DrainStep, observation: Observation) -> list[Action]:
    """The steps of one pool, in the order in which they are safe."""
    if pool.fleet is None:
        return []
    actions: list[Action] = []
    queue = observation.desired.backend_queue
    for engines, cordoned in ((step.uncordon, False), (step.cordon, True)):
        if engines:
            actions.append(Cordon(pool=pool.key, queue=queue, engines=engines, cordoned=cordoned))
    if step.prefer:
        actions.append(PreferVictims(pool=pool.key, pods=step.prefer))
    if step.replicas is not None:
        actions.append(
            SetReplicas(
                pool=pool.key,
                replicas=step.replicas,
                current=pool.replicas,
                version=pool.fleet.version,
            )
        )
    if pool.entry is None and pool.replicas == 0 and not pool.fleet.pods:
        actions.append(RemovePool(pool=pool.key))
    return actions


def _records(observation: Observation, memory: PlanMemory) -> tuple[PlanMemory, list[Action]]:
    """What the backend is told, for the console: decisions and pods, when they changed."""
    actions: list[Action] = []
    recorded = {
        name: known for name, known in memory.recorded.items() if name in observation.decisions
    }
    for pool in observation.pools:
        decision = observation.decisions.get(pool.key.pool)
        if decision is None or pool.entry is None:
            continue
        standing = decision.reason if decision.reason in _STANDING else ""
        key = (decision.replicas, standing)
        if recorded.get(decision.pool) == key:
            continue
        before = recorded[decision.pool][0] if decision.pool in recorded else decision.current
        actions.append(
            RecordDecision(record=_decision_record(observation, pool.entry, decision, before))
        )
        recorded[decision.pool] = key
    pods = _pod_records(observation)
    if pods != memory.pods:
        actions.append(RecordPods(queue=observation.desired.backend_queue, pods=pods))
    after = PlanMemory(drains=memory.drains, recorded=recorded, pods=pods)
    return after, actions


def _decision_record(
    observation: Observation, entry: PoolEntry, decision: Decision, before: int
) -> DecisionRecord:
    return DecisionRecord(
        queue=observation.desired.backend_queue,
        pool=decision.pool,
        at=observation.read.as_of or observation.at,
        from_replicas=before,
        to_replicas=decision.replicas,
        reason=decision.reason,
        summary=decision.summary,
        detail=decision_detail(entry, decision),
    )


def decision_detail(entry: PoolEntry, decision: Decision) -> dict[str, Any]:
    """A decision taken apart, as JSON: limits and explanation."""
    return {
        "min": entry.scaling.min_replicas,
        "max": entry.scaling.max_replicas,
        "mode": entry.scaling.mode.value,
        "recommended": decision.recommended,
        "clampedBy": decision.explanation.clamped_by,
        "explanation": msgspec.to_builtins(decision.explanation),
    }


def _pod_records(observation: Observation) -> tuple[PodRecord, ...]:
    return tuple(
        PodRecord(
            queue=observation.desired.backend_queue,
            pool=pool.key.pool,
            name=pod.name,
            phase=pod.phase.value,
            detail=pod.detail,
            since=pod.since,
        )
        for pool in observation.pools
        for pod in (pool.fleet.pods if pool.fleet else ())
    )
