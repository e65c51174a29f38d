"""Engines, cordons, decisions and pods of the memory backend. Its caller holds the lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runnerq.clock import instant, milliseconds
from runnerq.storage.records import EngineState, EngineStatus, HeartbeatReply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from runnerq.clock import Clock
    from runnerq.storage.records import (
        DecisionRecord,
        EngineInfo,
        Heartbeat,
        PodRecord,
        TypeCounters,
    )

_DECISIONS_KEPT_MS = 24 * 3_600_000
_SILENT_ENGINES_KEPT_MS = 3_600_000
"""Long after their work was taken back; until then people can still see who is missing."""


@dataclass(slots=True)
class EngineRow:
    info: EngineInfo
    started_ms: int
    heartbeat_ms: int
    state: EngineState = EngineState.RUNNING
    busy: int = 0
    cordoned: bool = False
    counters: Mapping[str, TypeCounters] = field(default_factory=dict[str, "TypeCounters"])


class FleetStore:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._engines: dict[str, dict[UUID, EngineRow]] = {}
        self._decisions: dict[str, list[DecisionRecord]] = {}
        self._pods: dict[str, tuple[PodRecord, ...]] = {}

    def queues(self) -> set[str]:
        return {queue for queue, engines in self._engines.items() if engines}

    def register(self, queue: str, info: EngineInfo) -> None:
        now_ms = self._clock.now_ms()
        engines = self._engines.setdefault(queue, {})
        known = engines.get(info.engine_id)
        if known is None:
            engines[info.engine_id] = EngineRow(info, started_ms=now_ms, heartbeat_ms=now_ms)
        else:
            known.info, known.heartbeat_ms, known.state = info, now_ms, EngineState.RUNNING

    def heartbeat(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        engine = self._engines.get(queue, {}).get(beat.engine_id)
        # A late beat of an engine that was retired must not bring it back to life.
        if engine is None or engine.state is EngineState.STOPPED:
            return HeartbeatReply(known=False)
        engine.heartbeat_ms = self._clock.now_ms()
        engine.state, engine.busy, engine.counters = beat.state, beat.busy, dict(beat.counters)
        return HeartbeatReply(known=True, cordoned=engine.cordoned)

    def retire(self, queue: str, engine_id: UUID) -> None:
        engine = self._engines.get(queue, {}).get(engine_id)
        if engine is not None:
            engine.state, engine.busy = EngineState.STOPPED, 0

    def cordon(self, queue: str, engine_ids: Iterable[UUID], *, cordoned: bool) -> None:
        engines = self._engines.get(queue, {})
        for engine_id in engine_ids:
            if engine_id in engines:
                engines[engine_id].cordoned = cordoned

    def claimant(self, queue: str, engine_id: UUID) -> EngineInfo | None:
        """The engine, if it may claim: registered, not stopped, not cordoned."""
        engine = self._engines.get(queue, {}).get(engine_id)
        if engine is None or engine.cordoned or engine.state is EngineState.STOPPED:
            return None
        return engine.info

    def gone(self, queue: str, engine_id: UUID, liveness_ms: int) -> bool:
        engine = self._engines.get(queue, {}).get(engine_id)
        if engine is None or engine.state is EngineState.STOPPED:
            return True
        return self._clock.now_ms() - engine.heartbeat_ms >= liveness_ms

    def prune(self, queue: str) -> None:
        """Forget engines that have been silent for an hour."""
        before_ms = self._clock.now_ms() - _SILENT_ENGINES_KEPT_MS
        engines = self._engines.get(queue, {})
        for engine_id in [key for key, row in engines.items() if row.heartbeat_ms < before_ms]:
            del engines[engine_id]

    def statuses(self, queue: str) -> tuple[EngineStatus, ...]:
        """Engines that have not stopped, oldest first."""
        now_ms = self._clock.now_ms()
        return tuple(
            EngineStatus(
                info=engine.info,
                state=engine.state,
                busy=engine.busy,
                cordoned=engine.cordoned,
                started_at=instant(engine.started_ms),
                heartbeat_age_ms=max(0, now_ms - engine.heartbeat_ms),
                counters=engine.counters,
            )
            for engine in self._engines.get(queue, {}).values()
            if engine.state is not EngineState.STOPPED
        )

    def record_decision(self, decision: DecisionRecord) -> None:
        kept = self._decisions.setdefault(decision.queue, [])
        kept.append(decision)
        before_ms = self._clock.now_ms() - _DECISIONS_KEPT_MS
        self._decisions[decision.queue] = [d for d in kept if milliseconds(d.at) > before_ms]

    def decisions(self, queue: str, pool: str | None, limit: int) -> list[DecisionRecord]:
        before_ms = self._clock.now_ms() - _DECISIONS_KEPT_MS
        recent = [
            decision
            for decision in reversed(self._decisions.get(queue, []))
            if pool in (None, decision.pool) and milliseconds(decision.at) > before_ms
        ]
        return sorted(recent, key=lambda decision: decision.at, reverse=True)[: max(0, limit)]

    def record_pods(self, queue: str, pods: Sequence[PodRecord]) -> None:
        self._pods[queue] = tuple(pods)

    def pods(self, queue: str) -> list[PodRecord]:
        return sorted(self._pods.get(queue, ()), key=lambda pod: (pod.pool, pod.name))
