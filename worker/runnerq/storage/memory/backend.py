"""MemoryBackend: all of `storage.ports.Storage` within one process, gone when it ends.

Every call takes one lock for a few microseconds and never waits inside it, so that heartbeats from a
thread and a sync facade on another event loop are safe.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from runnerq.clock import Clock, SystemClock
from runnerq.storage.broadcast import Broadcast
from runnerq.storage.memory import inspection
from runnerq.storage.memory.fleet import FleetStore
from runnerq.storage.memory.store import ActivityStore
from runnerq.storage.ports import Capabilities
from runnerq.storage.records import ActivityState
from runnerq.storage.timeline import timeline
from runnerq.storage.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    from runnerq.storage.ports import WorkSignal
    from runnerq.storage.records import (
        Acknowledged,
        Acknowledgement,
        ActivityEvent,
        ActivityResult,
        ActivitySnapshot,
        ActivitySpec,
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

_CAPABILITIES = Capabilities(
    name="memory", native_schedule=True, durable=False, cross_process=False
)
_WAITING = frozenset({ActivityState.PENDING, ActivityState.RETRYING, ActivityState.SCHEDULED})


class MemoryBackend:
    """The reference backend.

    >>> MemoryBackend("orders").default_queue
    'orders'
    """

    def __init__(self, queue: str = "default", *, clock: Clock | None = None) -> None:
        self._queue = queue
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._activities = ActivityStore(self._clock, self._changed)
        self._fleet = FleetStore(self._clock)
        self._work: defaultdict[str, Wakeup] = defaultdict(Wakeup)
        self._ended: defaultdict[UUID, Wakeup] = defaultdict(Wakeup)
        self._stream = Broadcast()

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def default_queue(self) -> str:
        return self._queue

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Content stays: an engine and an executor of one process may share this backend."""

    async def migrate(self) -> list[str]:
        return []

    async def get_result(self, queue: str, activity_id: UUID) -> ActivityResult | None:
        with self._lock:
            return self._activities.row(queue, activity_id).ending()

    async def wait_for_result(
        self, queue: str, activity_id: UUID, timeout: float
    ) -> ActivityResult | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while True:
            with self._lock:
                result = self._activities.row(queue, activity_id).ending()
                if result is not None:
                    return result
                ended = self._ended[activity_id]
                seen = ended.version()
            if loop.time() >= until:
                return None
            await ended.wait(seen, until - loop.time())

    async def enqueue(self, queue: str, specs: Sequence[ActivitySpec]) -> list[Enqueued]:
        with self._lock:
            return self._activities.enqueue(queue, specs)

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        with self._lock:
            engine = self._fleet.claimant(request.queue, request.engine_id)
            if engine is None:
                return []
            return self._activities.claim(request, engine.worker_id)

    async def acknowledge(
        self, queue: str, acknowledgements: Sequence[Acknowledgement]
    ) -> list[Acknowledged]:
        with self._lock:
            return [self._activities.acknowledge(queue, ack) for ack in acknowledgements]

    async def extend_lease(self, queue: str, claims: Sequence[ClaimRef], by_ms: int) -> list[bool]:
        with self._lock:
            return [self._activities.extend(queue, ref, by_ms) for ref in claims]

    async def still_held(self, queue: str, claims: Sequence[ClaimRef]) -> list[bool]:
        with self._lock:
            return [self._activities.held(queue, ref) is not None for ref in claims]

    async def reap(self, queue: str, *, limit: int, liveness_ms: int) -> list[Reaped]:
        with self._lock:
            reaped = self._activities.reap(
                queue, limit, lambda engine_id: self._fleet.gone(queue, engine_id, liveness_ms)
            )
            self._fleet.prune(queue)
            return reaped

    async def process_scheduled(self, queue: str, *, limit: int) -> int:
        return 0

    async def register_engine(self, queue: str, engine: EngineInfo) -> None:
        with self._lock:
            self._fleet.register(queue, engine)

    async def heartbeat(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        return self.heartbeat_blocking(queue, beat)

    def heartbeat_blocking(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        with self._lock:
            return self._fleet.heartbeat(queue, beat)

    async def retire_engine(self, queue: str, engine_id: UUID) -> None:
        with self._lock:
            self._fleet.retire(queue, engine_id)

    def work_signal(self, queue: str) -> WorkSignal:
        with self._lock:
            return self._work[queue]

    async def stats(self, queue: str) -> QueueStats:
        with self._lock:
            return inspection.stats(self._activities, queue, self._clock.now_ms())

    async def list_activities(
        self,
        queue: str,
        state: ActivityState,
        *,
        limit: int = 50,
        cursor: str | None = None,
        activity_type: str | None = None,
    ) -> Page:
        with self._lock:
            return inspection.page(
                self._activities,
                queue,
                state,
                limit=limit,
                cursor=cursor,
                activity_type=activity_type,
            )

    async def get_activity(self, queue: str, activity_id: UUID) -> ActivitySnapshot:
        with self._lock:
            return self._activities.row(queue, activity_id).snapshot()

    async def get_activity_events(self, queue: str, activity_id: UUID) -> list[ActivityEvent]:
        with self._lock:
            row = self._activities.row(queue, activity_id)
            return timeline(row.snapshot(), row.events)

    async def list_queues(self) -> list[str]:
        with self._lock:
            return sorted(self._activities.queues() | self._fleet.queues())

    def event_stream(
        self, queue: str
    ) -> AbstractAsyncContextManager[AsyncIterator[ActivityEvent | StreamGap]]:
        return self._stream.subscribe(queue)

    async def demand(self, queues: Sequence[str], *, horizon_ms: int) -> list[QueueDemand]:
        with self._lock:
            now_ms = self._clock.now_ms()
            return [
                inspection.demand(
                    self._activities, self._fleet, queue, now_ms=now_ms, horizon_ms=horizon_ms
                )
                for queue in queues
            ]

    async def requeue_dead_letters(
        self, queue: str, activity_ids: Sequence[UUID], *, actor: str
    ) -> list[bool]:
        with self._lock:
            return [self._activities.requeue(queue, one, actor) for one in activity_ids]

    async def cordon(self, queue: str, engine_ids: Sequence[UUID], *, cordoned: bool) -> None:
        with self._lock:
            self._fleet.cordon(queue, engine_ids, cordoned=cordoned)

    async def record_decision(self, decision: DecisionRecord) -> None:
        with self._lock:
            self._fleet.record_decision(decision)

    async def decisions(
        self, queue: str, *, pool: str | None = None, limit: int = 50
    ) -> list[DecisionRecord]:
        with self._lock:
            return self._fleet.decisions(queue, pool, limit)

    async def record_pods(self, queue: str, pods: Sequence[PodRecord]) -> None:
        with self._lock:
            self._fleet.record_pods(queue, pods)

    async def pods(self, queue: str) -> list[PodRecord]:
        with self._lock:
            return self._fleet.pods(queue)

    def _changed(self, queue: str, events: list[ActivityEvent]) -> None:
        """Wake who waits for work or for an end, and tell the watchers."""
        if any(event.state in _WAITING for event in events):
            self._work[queue].notify()
        for event in events:
            if (
                event.state is not None
                and event.state.terminal
                and event.activity_id in self._ended
            ):
                self._ended.pop(event.activity_id).notify()
        self._stream.publish(queue, events)
