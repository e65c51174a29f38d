"""Pools as the console shows them: what the operator decided, what the fleet has, what engines report.

Pure. Joins three sources that only meet in the backend: engines (heartbeats), pods (written by the
fleet) and decisions (written by the operator). A source that says nothing about a pool leaves None,
never zero: a pool nobody reported on is unknown, not empty.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from runnerq.documents import Document, decision_document, pod_document
from runnerq.storage.records import EngineState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runnerq.storage.records import (
        DecisionRecord,
        EngineStatus,
        PodRecord,
        QueueDemand,
        TypeDemand,
    )

STALE_MS = 15_000
"""An engine silent for this long is taken for dead, and its work given back."""

BY_HAND = ""
"""The pool of engines that nobody put into one."""


def is_stale(engine: EngineStatus) -> bool:
    return engine.state is not EngineState.STOPPED and engine.heartbeat_age_ms >= STALE_MS


def live_engines(demand: QueueDemand) -> list[EngineStatus]:
    """Engines that still count: not stopped and not silent."""
    return [
        engine
        for engine in demand.engines
        if engine.state is not EngineState.STOPPED and not is_stale(engine)
    ]


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """One pool; JSON has the same fields."""

    pool: str
    desired: int | None
    """What the operator decided last; None when it decided nothing in the last 24 h."""
    min: int | None
    max: int | None
    ready: int
    """Pods that are ready, or live engines where no fleet reports pods."""
    phases: Mapping[str, int]
    engines: int
    draining: int
    cordoned: int
    busy: int
    slots: int
    builds: tuple[str, ...]
    types: tuple[str, ...]
    backlog: int | None
    """Claimable of the types that the pool's engines serve or last served; None when unknown."""
    backlog_capped: bool
    oldest_claimable_age_ms: int | None
    decision: Document | None
    pods: tuple[Document, ...]


def pools_of(
    demand: QueueDemand, pods: Sequence[PodRecord], decisions: Sequence[DecisionRecord]
) -> list[Pool]:
    """Every pool somebody reported on, by name; engines without a pool come last, as "".

    `decisions` newest first, as storage gives them.
    """
    latest: dict[str, DecisionRecord] = {}
    for decision in decisions:
        latest.setdefault(decision.pool, decision)
    engines: dict[str, list[EngineStatus]] = {}
    for engine in live_engines(demand):
        engines.setdefault(engine.info.pool, []).append(engine)
    types: dict[str, set[str]] = {}
    for engine in demand.engines:
        types.setdefault(engine.info.pool, set()).update(engine.info.types)
    shown: dict[str, list[PodRecord]] = {}
    for pod in pods:
        if pod.phase != "gone":
            shown.setdefault(pod.pool, []).append(pod)
    names = sorted({*latest, *engines, *shown}, key=lambda name: (name == BY_HAND, name))
    return [
        _pool(
            name,
            demand,
            types=types.get(name, set()),
            engines=engines.get(name, []),
            pods=shown.get(name, []),
            decision=latest.get(name),
        )
        for name in names
    ]


def _pool(
    name: str,
    demand: QueueDemand,
    *,
    types: set[str],
    engines: Sequence[EngineStatus],
    pods: Sequence[PodRecord],
    decision: DecisionRecord | None,
) -> Pool:
    wanted = [entry for entry in demand.types if entry.type in types]
    ages = [
        entry.oldest_claimable_age_ms
        for entry in wanted
        if entry.oldest_claimable_age_ms is not None
    ]
    phases = Counter(pod.phase for pod in pods)
    return Pool(
        pool=name,
        desired=None if decision is None else decision.to_replicas,
        min=None if decision is None else _limit(decision, "min"),
        max=None if decision is None else _limit(decision, "max"),
        ready=phases["ready"] if pods else len(engines),
        phases=dict(sorted(phases.items())),
        engines=len(engines),
        draining=sum(engine.state is EngineState.DRAINING for engine in engines),
        cordoned=sum(engine.cordoned for engine in engines),
        busy=sum(engine.busy for engine in engines),
        slots=sum(engine.info.slots for engine in engines),
        builds=tuple(sorted({engine.info.build_id for engine in engines} - {""})),
        types=tuple(sorted(types)),
        backlog=_backlog(demand, wanted, known=bool(types)),
        backlog_capped=any(entry.claimable_capped for entry in wanted),
        oldest_claimable_age_ms=max(ages, default=None),
        decision=None if decision is None else decision_document(decision),
        pods=tuple(pod_document(pod) for pod in sorted(pods, key=lambda pod: pod.name)),
    )


def _backlog(demand: QueueDemand, wanted: Sequence[TypeDemand], *, known: bool) -> int | None:
    # Where nothing at all is claimable, nothing is for this pool either, whatever it serves.
    known = known or not any(entry.claimable for entry in demand.types)
    return sum(entry.claimable for entry in wanted) if known else None


def _limit(decision: DecisionRecord, key: str) -> int | None:
    value = decision.detail.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
