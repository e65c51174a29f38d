"""Building blocks for the tests of the control loop's pure parts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.refusals import Edits, edited, valid_queue

from runnerq.storage.records import (
    EngineInfo,
    EngineState,
    EngineStatus,
    QueueDemand,
    TypeDemand,
)
from runnerq_operator.control.desired import BackendAddress, BackendProblem, DesiredQueue
from runnerq_operator.control.observation import EngineView, PoolObservation
from runnerq_operator.fleet.port import FleetState, PodPhase, PodState, PoolKey, QueueKey
from runnerq_operator.model.pool import PoolEntry
from runnerq_operator.model.validate import parse_queue

T0 = datetime(2025, 6, 1, 12, tzinfo=UTC)
POOL = PoolKey("", "shop", "mail")


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def desired_queue(
    edits: Edits | None = None, *, backend: BackendAddress | BackendProblem | None = None
) -> DesiredQueue:
    """The queue `shop` with its pool `mail`, which runs send_*."""
    queue = parse_queue(edited(valid_queue(), edits or {}), source="test")
    return DesiredQueue(
        key=QueueKey("", "shop"),
        spec=queue.spec,
        backend=backend or BackendAddress(url="memory://"),
        generation=3,
    )


MAIL = desired_queue().spec.pools[0]
"""The pool with all its defaults."""


def mail_pool(**scaling: Any) -> PoolEntry:
    return desired_queue({"pools.0.scaling": scaling}).spec.pools[0]


def pod(name: str, phase: PodPhase = PodPhase.READY, **fields: Any) -> PodState:
    return PodState(name=name, phase=phase, created_at=T0, since=T0, **fields)


def view(
    name: str,
    *,
    busy: int = 0,
    cordoned: bool = False,
    beat: float = 0.0,
    nothing_runs: bool = False,
    engine_id: UUID | None = None,
) -> EngineView:
    """The engine in a pod; `beat`: seconds after T0 at which it last reported."""
    return EngineView(
        engine_id=engine_id or UUID(int=sum(map(ord, name))),
        pod=name,
        busy=busy,
        cordoned=cordoned,
        beat_at=at(beat),
        nothing_runs=nothing_runs,
    )


def observed(
    pods: list[PodState],
    engines: list[EngineView] | None = None,
    *,
    replicas: int | None = None,
    entry: PoolEntry | None = None,
    **fleet: Any,
) -> PoolObservation:
    views = tuple(engines or ())
    return PoolObservation(
        key=POOL,
        entry=entry or MAIL,
        fleet=FleetState(
            pool=POOL,
            replicas=len(pods) if replicas is None else replicas,
            pods=tuple(pods),
            version="7",
            **fleet,
        ),
        engines=views,
        busy=sum(engine.busy for engine in views),
    )


def demand(
    *types: TypeDemand, engines: tuple[EngineStatus, ...] = (), seconds: float = 0.0
) -> QueueDemand:
    return QueueDemand(queue="shop", as_of=at(seconds), types=types, engines=engines)


def engine_status(
    pod_name: str,
    *,
    types: tuple[str, ...] = ("send_mail",),
    busy: int = 0,
    cordoned: bool = False,
    silent_ms: int = 100,
    state: EngineState = EngineState.RUNNING,
    pool: str = "mail",
    counters: Mapping[str, Any] | None = None,
) -> EngineStatus:
    return EngineStatus(
        info=EngineInfo(
            engine_id=uuid4(), host="here", pid=1, slots=10, types=types, pool=pool, pod=pod_name
        ),
        state=state,
        busy=busy,
        cordoned=cordoned,
        started_at=T0,
        heartbeat_age_ms=silent_ms,
        counters=counters or {},
    )
