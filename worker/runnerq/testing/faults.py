"""FaultyBackend: any backend, with faults on demand. For tests of what an app does in an outage.

Never fails by itself: without a fault it is the backend that it wraps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnerq.testing.fault_plan import FaultPlan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    from runnerq.storage.ports import Capabilities, Storage, WorkSignal
    from runnerq.storage.records import (
        Acknowledged,
        Acknowledgement,
        ActivityEvent,
        ActivityResult,
        ActivitySnapshot,
        ActivitySpec,
        ActivityState,
        Claim,
        ClaimRef,
        ClaimRequest,
        DecisionRecord,
        EngineInfo,
        Enqueued,
        Heartbeat,
        HeartbeatReply,
        Page,
        PodRecord,
        QueueDemand,
        QueueStats,
        Reaped,
        StreamGap,
    )


class FaultyBackend(FaultPlan):
    """Wraps `backend` and implements the same ports. See `FaultPlan` for what can go wrong.

    >>> from runnerq.storage.memory import MemoryBackend
    >>> backend = FaultyBackend(MemoryBackend())
    >>> backend.fail("acknowledge", times=3)
    """

    def __init__(self, backend: Storage) -> None:
        super().__init__()
        self._backend = backend

    @property
    def capabilities(self) -> Capabilities:
        return self._backend.capabilities

    @property
    def default_queue(self) -> str:
        return self._backend.default_queue

    def work_signal(self, queue: str) -> WorkSignal:
        return self._backend.work_signal(queue)

    def event_stream(
        self, queue: str
    ) -> AbstractAsyncContextManager[AsyncIterator[ActivityEvent | StreamGap]]:
        return self.run_blocking(self._backend.event_stream, queue)

    async def get_result(self, queue: str, activity_id: UUID) -> ActivityResult | None:
        return await self.run(self._backend.get_result, queue, activity_id)

    async def wait_for_result(
        self, queue: str, activity_id: UUID, timeout: float
    ) -> ActivityResult | None:
        return await self.run(self._backend.wait_for_result, queue, activity_id, timeout)

    async def open(self) -> None:
        return await self.run(self._backend.open)

    async def close(self) -> None:
        return await self.run(self._backend.close)

    async def migrate(self) -> list[str]:
        return await self.run(self._backend.migrate)

    async def enqueue(self, queue: str, specs: Sequence[ActivitySpec]) -> list[Enqueued]:
        return await self.run(self._backend.enqueue, queue, specs)

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        return await self.run(self._backend.claim, request)

    async def acknowledge(
        self, queue: str, acknowledgements: Sequence[Acknowledgement]
    ) -> list[Acknowledged]:
        return await self.run(self._backend.acknowledge, queue, acknowledgements)

    async def extend_lease(self, queue: str, claims: Sequence[ClaimRef], by_ms: int) -> list[bool]:
        return await self.run(self._backend.extend_lease, queue, claims, by_ms)

    async def still_held(self, queue: str, claims: Sequence[ClaimRef]) -> list[bool]:
        return await self.run(self._backend.still_held, queue, claims)

    async def reap(self, queue: str, *, limit: int, liveness_ms: int) -> list[Reaped]:
        return await self.run(self._backend.reap, queue, limit=limit, liveness_ms=liveness_ms)

    async def process_scheduled(self, queue: str, *, limit: int) -> int:
        return await self.run(self._backend.process_scheduled, queue, limit=limit)

    async def register_engine(self, queue: str, engine: EngineInfo) -> None:
        return await self.run(self._backend.register_engine, queue, engine)

    async def heartbeat(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        return await self.run(self._backend.heartbeat, queue, beat)

    def heartbeat_blocking(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        return self.run_blocking(self._backend.heartbeat_blocking, queue, beat)

    async def retire_engine(self, queue: str, engine_id: UUID) -> None:
        return await self.run(self._backend.retire_engine, queue, engine_id)

    async def stats(self, queue: str) -> QueueStats:
        return await self.run(self._backend.stats, queue)

    async def list_activities(
        self,
        queue: str,
        state: ActivityState,
        *,
        limit: int = 50,
        cursor: str | None = None,
        activity_type: str | None = None,
    ) -> Page:
        return await self.run(
            self._backend.list_activities,
            queue,
            state,
            limit=limit,
            cursor=cursor,
            activity_type=activity_type,
        )

    async def get_activity(self, queue: str, activity_id: UUID) -> ActivitySnapshot:
        return await self.run(self._backend.get_activity, queue, activity_id)

    async def get_activity_events(self, queue: str, activity_id: UUID) -> list[ActivityEvent]:
        return await self.run(self._backend.get_activity_events, queue, activity_id)

    async def list_queues(self) -> list[str]:
        return await self.run(self._backend.list_queues)

    async def demand(self, queues: Sequence[str], *, horizon_ms: int) -> list[QueueDemand]:
        return await self.run(self._backend.demand, queues, horizon_ms=horizon_ms)

    async def requeue_dead_letters(
        self, queue: str, activity_ids: Sequence[UUID], *, actor: str
    ) -> list[bool]:
        return await self.run(self._backend.requeue_dead_letters, queue, activity_ids, actor=actor)

    async def cordon(self, queue: str, engine_ids: Sequence[UUID], *, cordoned: bool) -> None:
        return await self.run(self._backend.cordon, queue, engine_ids, cordoned=cordoned)

    async def record_decision(self, decision: DecisionRecord) -> None:
        return await self.run(self._backend.record_decision, decision)

    async def decisions(
        self, queue: str, *, pool: str | None = None, limit: int = 50
    ) -> list[DecisionRecord]:
        return await self.run(self._backend.decisions, queue, pool=pool, limit=limit)

    async def record_pods(self, queue: str, pods: Sequence[PodRecord]) -> None:
        return await self.run(self._backend.record_pods, queue, pods)

    async def pods(self, queue: str) -> list[PodRecord]:
        return await self.run(self._backend.pods, queue)
