"""Judges what a pass observed: each condition of a queue and of its pools. Pure.

A verdict is (status, reason, message); when it last changed is added by `status.py`. Every reason stands
in `model/conditions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from runnerq_operator.autoscale.decide import Decision
from runnerq_operator.control.desired import BackendProblem
from runnerq_operator.control.observation import Observation, PoolObservation
from runnerq_operator.control.plan import target_of
from runnerq_operator.fleet.port import PodPhase
from runnerq_operator.model.queue import CoveragePolicy, PausedMode
from runnerq_operator.model.scaling import ScalingMode
from runnerq_operator.model.status import ConditionStatus

_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN
_LIMITING = ("MaxReplicas", "QueueBudget", "BackendConnections", "Unschedulable")
_SCHEMA_REASONS = ("Mismatch",)


class Verdict(msgspec.Struct, frozen=True):
    status: ConditionStatus
    reason: str
    message: str = ""


Judge = Callable[[Observation, Sequence[PoolObservation]], Verdict]
"""Judges a queue over the given pools: all of them, or one."""


def verdicts(observation: Observation) -> dict[str, Verdict]:
    """Every condition of the queue, by type."""
    pools = [pool for pool in observation.pools if pool.entry is not None]
    return {name: judge(observation, pools) for name, judge in _JUDGES.items()}


def pool_verdicts(
    observation: Observation, pool: PoolObservation, types: Sequence[str]
) -> dict[str, Verdict]:
    """The conditions that a pool carries for itself."""
    return {name: _JUDGES[name](observation, [pool]) for name in types}


def _ready(observation: Observation, pools: Sequence[PoolObservation]) -> Verdict:
    for judge, reason in (
        (_backend_reachable, "BackendNotReady"),
        (_schema_compatible, "BackendNotReady"),
        (_template_valid, "TemplateNotValid"),
    ):
        found = judge(observation, pools)
        if found.status is not _TRUE:
            return Verdict(_FALSE, reason, found.message)
    short = [
        f"{pool.key.pool} {pool.fleet.ready if pool.fleet else 0}/{target}"
        for pool, target in ((one, target_of(one, observation.decisions)) for one in pools)
        if not _settled(pool, target)
    ]
    if short:
        return Verdict(_FALSE, "WorkersNotReady", f"ready/wanted: {', '.join(short)}")
    return Verdict(_TRUE, "AllReady")


def _reconciling(observation: Observation, pools: Sequence[PoolObservation]) -> Verdict:
    changing = [
        pool.key.pool
        for pool in pools
        if not _settled(pool, target_of(pool, observation.decisions))
        or (pool.fleet is not None and (pool.fleet.rolling or _leaving(pool)))
    ]
    changing += [pool.key.pool for pool in observation.pools if pool.entry is None]
    if changing:
        return Verdict(_TRUE, "PoolsChanging", f"pools: {', '.join(changing)}")
    return Verdict(_FALSE, "UpToDate")


def _stalled(observation: Observation, pools: Sequence[PoolObservation]) -> Verdict:
    problem = observation.desired.backend
    if isinstance(problem, BackendProblem):
        return Verdict(_TRUE, "NeedsAttention", problem.message)
    if observation.read.reason in _SCHEMA_REASONS:
        return Verdict(_TRUE, "NeedsAttention", observation.read.message)
    template = _template_valid(observation, pools)
    if template.status is _FALSE:
        return Verdict(_TRUE, "NeedsAttention", template.message)
    stuck = [
        f"{pod.name}: {pod.detail}"
        for pool in pools
        for pod in pool.live
        if pod.phase is PodPhase.UNSCHEDULABLE
    ]
    if stuck:
        return Verdict(_TRUE, "PodsUnschedulable", "; ".join(stuck))
    return Verdict(_FALSE, "Progressing")


def _backend_reachable(observation: Observation, _pools: Sequence[PoolObservation]) -> Verdict:
    problem, read = observation.desired.backend, observation.read
    if isinstance(problem, BackendProblem):
        return Verdict(_FALSE, problem.reason, problem.message)
    if read.demand is not None or read.reason in _SCHEMA_REASONS:
        return Verdict(_TRUE, "Answering")
    return Verdict(_FALSE, read.reason, read.message)


def _schema_compatible(observation: Observation, _pools: Sequence[PoolObservation]) -> Verdict:
    if observation.read.reason in _SCHEMA_REASONS:
        return Verdict(_FALSE, "Mismatch", observation.read.message)
    if observation.backend_ready:
        return Verdict(_TRUE, "UpToDate")
    return Verdict(_UNKNOWN, "NotObservedYet")


def _template_valid(_observation: Observation, pools: Sequence[PoolObservation]) -> Verdict:
    refused = [f"{pool.key.pool}: {pool.refused}" for pool in pools if pool.refused]
    if refused:
        return Verdict(_FALSE, "Refused", "; ".join(refused))
    return Verdict(_TRUE, "Accepted")


def _scaling_active(observation: Observation, pools: Sequence[PoolObservation]) -> Verdict:
    if observation.desired.spec.paused is PausedMode.SCALING:
        return Verdict(_FALSE, "Paused", "spec.paused is Scaling")
    modes = {pool.entry.scaling.mode for pool in pools if pool.entry}
    if modes == {ScalingMode.DISABLED}:
        return Verdict(_FALSE, "Disabled", "scaling.mode is Disabled")
    if modes == {ScalingMode.DRY_RUN}:
        return Verdict(_FALSE, "DryRun", "scaling.mode is DryRun")
    if observation.read.demand is None:
        return Verdict(_FALSE, "DemandUnknown", observation.read.message)
    return Verdict(_TRUE, "Deciding")


def _scaling_limited(observation: Observation, pools: Sequence[PoolObservation]) -> Verdict:
    limited = [
        (decision.explanation.clamped_by, f"{decision.pool}: {decision.summary}")
        for decision in _decided(observation, pools)
        if decision.explanation.clamped_by in _LIMITING
    ]
    if limited:
        return Verdict(_TRUE, limited[0][0], "; ".join(text for _, text in limited))
    return Verdict(_FALSE, "WithinLimits")


def _slo_feasible(observation: Observation, pools: Sequence[PoolObservation]) -> Verdict:
    allowed = observation.desired.spec.slo.max_wait_seconds
    measured = False
    slow: list[str] = []
    for decision in _decided(observation, pools):
        entry = next(pool.entry for pool in pools if pool.key.pool == decision.pool)
        if entry is None or (entry.scaling.min_replicas == 0 and not decision.startup_measured):
            continue
        measured = True
        if entry.scaling.min_replicas == 0 and decision.startup_seconds > allowed:
            slow.append(
                f"{decision.pool}: a worker takes {decision.startup_seconds:.0f} s to start, the SLO "
                f"is {allowed} s; set scaling.minReplicas to 1"
            )
    if slow:
        return Verdict(_FALSE, "StartupTooSlow", "; ".join(slow))
    return Verdict(_TRUE, "Feasible") if measured else Verdict(_UNKNOWN, "NotObservedYet")


def _slo_met(observation: Observation, pools: Sequence[PoolObservation]) -> Verdict:
    if observation.read.demand is None:
        return Verdict(_UNKNOWN, "DemandUnknown", observation.read.message)
    allowed = observation.desired.spec.slo.max_wait_seconds
    late = [
        f"{load.type} has waited {load.oldest_seconds:.0f} s, the SLO is {allowed} s"
        for decision in _decided(observation, pools)
        for load in decision.load
        if load.oldest_seconds is not None and load.oldest_seconds > allowed
    ]
    if late:
        return Verdict(_FALSE, "WaitTooLong", "; ".join(sorted(set(late))))
    return Verdict(_TRUE, "WithinSLO")


def _coverage(observation: Observation, _pools: Sequence[PoolObservation]) -> Verdict:
    if observation.desired.spec.coverage.policy is CoveragePolicy.IGNORE:
        return Verdict(_TRUE, "Ignored")
    if observation.read.demand is None:
        return Verdict(_UNKNOWN, "DemandUnknown", observation.read.message)
    if observation.uncovered:
        named = some_of(observation.uncovered)
        return Verdict(_FALSE, "TypesWithoutWorkers", f"no pool runs: {named}")
    return Verdict(_TRUE, "AllServed")


def _paused(observation: Observation, _pools: Sequence[PoolObservation]) -> Verdict:
    if observation.desired.spec.paused is PausedMode.SCALING:
        return Verdict(_TRUE, "ScalingPaused", "replicas are left as they are")
    return Verdict(_FALSE, "NotPaused")


def _fallback(observation: Observation, pools: Sequence[PoolObservation]) -> Verdict:
    held = [one.pool for one in _decided(observation, pools) if one.fallback]
    if held:
        return Verdict(_TRUE, "DemandUnknown", f"pools: {', '.join(held)}")
    return Verdict(_FALSE, "NotNeeded")


_JUDGES: Mapping[str, Judge] = {
    "Ready": _ready,
    "Reconciling": _reconciling,
    "Stalled": _stalled,
    "BackendReachable": _backend_reachable,
    "SchemaCompatible": _schema_compatible,
    "TemplateValid": _template_valid,
    "ScalingActive": _scaling_active,
    "ScalingLimited": _scaling_limited,
    "SLOFeasible": _slo_feasible,
    "SLOMet": _slo_met,
    "CoverageComplete": _coverage,
    "Paused": _paused,
    "FallbackActive": _fallback,
}


def _decided(observation: Observation, pools: Sequence[PoolObservation]) -> list[Decision]:
    return [
        observation.decisions[pool.key.pool]
        for pool in pools
        if pool.key.pool in observation.decisions
    ]


def _settled(pool: PoolObservation, target: int) -> bool:
    """The number decided on is set, all of them are ready and no others are left."""
    if pool.fleet is None:
        return False
    return pool.replicas == target == pool.fleet.ready == len(pool.live)


def some_of(names: Collection[str], most: int = 8) -> str:
    """The first names in order and how many more there are, for a message that people read.

    >>> some_of(["c", "a", "b"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(sorted(names)[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _leaving(pool: PoolObservation) -> bool:
    return pool.fleet is not None and pool.fleet.count(PodPhase.DRAINING) > 0
