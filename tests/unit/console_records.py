"""Records as the console reads them, with defaults for what a test does not care about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from runnerq.storage.records import (
    ActivityState,
    DecisionRecord,
    EngineInfo,
    EngineState,
    EngineStatus,
    PodRecord,
    QueueDemand,
    QueueStats,
    TypeCounters,
    TypeDemand,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def engine(
    pool: str = "bulk",
    *,
    types: tuple[str, ...] = ("send",),
    state: EngineState = EngineState.RUNNING,
    finished: int = 0,
    age_ms: int = 100,
    started: datetime = NOW - timedelta(hours=1),
    **fields: Any,
) -> EngineStatus:
    busy = int(fields.pop("busy", 0))
    cordoned = bool(fields.pop("cordoned", False))
    info: dict[str, Any] = {"engine_id": uuid4(), "host": "node", "pid": 7, "slots": 8, **fields}
    return EngineStatus(
        info=EngineInfo(pool=pool, types=types, **info),
        state=state,
        busy=busy,
        cordoned=cordoned,
        started_at=started,
        heartbeat_age_ms=age_ms,
        counters={"send": TypeCounters(finished=finished)},
    )


def demand(
    *engines: EngineStatus, types: tuple[TypeDemand, ...] = (), at: datetime = NOW
) -> QueueDemand:
    return QueueDemand(queue="q", as_of=at, types=types, engines=engines)


def wanted(activity_type: str = "send", claimable: int = 3, **fields: Any) -> TypeDemand:
    return TypeDemand(type=activity_type, claimable=claimable, **fields)


def stats(**counts: int) -> QueueStats:
    return QueueStats(
        queue="q",
        as_of=NOW,
        counts={ActivityState(state): count for state, count in counts.items()},
        capped=frozenset(),
        cap=10_000,
        by_type={},
    )


def decision(pool: str = "bulk", to: int = 2, **fields: Any) -> DecisionRecord:
    values: dict[str, Any] = {
        "from_replicas": 1,
        "reason": "target",
        "summary": "because",
        "detail": {},
        "at": NOW,
        **fields,
    }
    return DecisionRecord(queue="q", pool=pool, to_replicas=to, **values)


def pod(pool: str = "bulk", phase: str = "ready", name: str = "pod-1") -> PodRecord:
    return PodRecord(queue="q", pool=pool, name=name, phase=phase, since=NOW)
