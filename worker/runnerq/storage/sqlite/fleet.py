"""Engines, cordons, decisions and pods: what operator, workers and console tell each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from runnerq.clock import instant, milliseconds
from runnerq.storage.records import (
    DecisionRecord,
    EngineInfo,
    EngineState,
    EngineStatus,
    HeartbeatReply,
    PodRecord,
    TypeCounters,
)
from runnerq.storage.sqlite.encoding import encode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from runnerq.storage.records import Heartbeat
    from runnerq.storage.sqlite.session import Session

_DECISIONS_KEPT_MS = 24 * 3_600_000


def register(session: Session, queue: str, engine: EngineInfo) -> None:
    session.change(
        "engine_register",
        queue=queue,
        engine_id=engine.engine_id.bytes,
        info=encode(engine),
        worker_id=engine.worker_id,
    )


def heartbeat(session: Session, queue: str, beat: Heartbeat) -> HeartbeatReply:
    known = session.row(
        "engine_beat",
        queue=queue,
        engine_id=beat.engine_id.bytes,
        state=beat.state,
        busy=beat.busy,
        counters=encode(beat.counters),
    )
    if known is None:
        return HeartbeatReply(known=False)
    return HeartbeatReply(known=True, cordoned=bool(known["cordoned"]))


def retire(session: Session, queue: str, engine_id: UUID) -> None:
    session.change("engine_retire", queue=queue, engine_id=engine_id.bytes)


def cordon(session: Session, queue: str, engine_ids: Sequence[UUID], *, cordoned: bool) -> None:
    for engine_id in engine_ids:
        session.change(
            "engine_cordon", queue=queue, engine_id=engine_id.bytes, cordoned=int(cordoned)
        )


def statuses(session: Session, queue: str) -> tuple[EngineStatus, ...]:
    """Engines that have not stopped, oldest first."""
    return tuple(
        EngineStatus(
            info=msgspec.json.decode(row["info"], type=EngineInfo),
            state=EngineState(row["state"]),
            busy=row["busy"],
            cordoned=bool(row["cordoned"]),
            started_at=instant(row["started_ms"]),
            heartbeat_age_ms=max(0, session.now_ms - row["heartbeat_ms"]),
            counters=msgspec.json.decode(row["counters"], type=dict[str, TypeCounters]),
        )
        for row in session.rows("engines_of", queue=queue)
    )


def record_decision(session: Session, decision: DecisionRecord) -> None:
    session.change(
        "decision_insert",
        queue=decision.queue,
        pool=decision.pool,
        at_ms=milliseconds(decision.at),
        decision=encode(decision),
    )
    session.change(
        "decisions_prune", queue=decision.queue, before_ms=session.now_ms - _DECISIONS_KEPT_MS
    )


def decisions(
    session: Session, queue: str, *, pool: str | None, limit: int
) -> list[DecisionRecord]:
    rows = session.rows(
        "decisions_of",
        queue=queue,
        pool=pool,
        limit=max(0, limit),
        before_ms=session.now_ms - _DECISIONS_KEPT_MS,
    )
    return [msgspec.json.decode(row["decision"], type=DecisionRecord) for row in rows]


def record_pods(session: Session, queue: str, pods: Sequence[PodRecord]) -> None:
    session.change("pods_clear", queue=queue)
    for pod in pods:
        session.change("pod_insert", queue=queue, pool=pod.pool, name=pod.name, pod=encode(pod))


def pods(session: Session, queue: str) -> list[PodRecord]:
    return [
        msgspec.json.decode(row["pod"], type=PodRecord)
        for row in session.rows("pods_of", queue=queue)
    ]
