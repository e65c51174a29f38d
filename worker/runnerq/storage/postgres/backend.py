"""PostgresBackend: all of `storage.ports.Storage` on Postgres, put together from its parts.

Decides nothing itself: each call goes to the part that owns it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from runnerq.errors import StorageError
from runnerq.storage.ports import Capabilities
from runnerq.storage.postgres.acknowledge import Acknowledger
from runnerq.storage.postgres.claim import Claims
from runnerq.storage.postgres.connections import Database
from runnerq.storage.postgres.engines import Engines, HeartbeatThread
from runnerq.storage.postgres.enqueue import Enqueuer
from runnerq.storage.postgres.errors import boundary
from runnerq.storage.postgres.fleet import Fleet
from runnerq.storage.postgres.inspection import Inspection
from runnerq.storage.postgres.leases import Leases
from runnerq.storage.postgres.listener import notifications_arrive
from runnerq.storage.postgres.migrate import MigrationStatus, Schema
from runnerq.storage.postgres.names import Names
from runnerq.storage.postgres.partitions import Partitions
from runnerq.storage.postgres.requeue import Requeuer
from runnerq.storage.postgres.results import Results
from runnerq.storage.postgres.signals import Signals
from runnerq.storage.postgres.sql import Statements
from runnerq.storage.postgres.stream import Stream

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

_CAPABILITIES = Capabilities(name="postgres", native_schedule=True)


class PostgresBackend:
    """Postgres 15 or later. `max_connections` bounds all connections of this process.

    Two of them are kept for listening and for the heartbeat; the rest are the pool.

    >>> PostgresBackend("postgresql://localhost/shop", "orders").default_queue
    'orders'
    """

    def __init__(
        self,
        url: str,
        queue: str = "default",
        *,
        schema: str = "runnerq",
        max_connections: int = 10,
    ) -> None:
        self._queue = queue
        self._opening = asyncio.Lock()
        self._is_open = False
        self._database = Database(url, Statements(schema), max_connections)
        self._schema = Schema(self._database)
        self._names = Names(self._database)
        self._partitions = Partitions(self._database)
        self._signals = Signals(self._database)
        self._stream = Stream(self._database, self._names, self._signals)
        self._results = Results(self._database, self._names, self._signals)
        parts = (self._database, self._names, self._signals, self._stream)
        self._enqueuer = Enqueuer(
            self._database, self._names, self._partitions, self._signals, self._stream
        )
        self._claims = Claims(*parts)
        self._acknowledger = Acknowledger(*parts)
        self._leases = Leases(
            self._database, self._names, self._partitions, self._signals, self._stream
        )
        self._requeuer = Requeuer(*parts)
        self._engines = Engines(self._database, self._names)
        self._heartbeat = HeartbeatThread(self._database)
        self._inspection = Inspection(self._database, self._names)
        self._fleet = Fleet(self._database, self._names)

    @property
    def capabilities(self) -> Capabilities:
        return _CAPABILITIES

    @property
    def default_queue(self) -> str:
        return self._queue

    @property
    def schema(self) -> str:
        return self._database.statements.schema

    @property
    def pushes(self) -> bool:
        """Whether other processes' news are pushed to this one. Not through a transaction-mode pooler,
        behind which everything is polled; True until `open` has found out."""
        return not self._database.pooled

    async def open(self) -> None:
        async with self._opening:
            if self._is_open:
                return
            with boundary("connect"):
                connection = await self._database.connect(session=False)
                try:
                    await self._schema.check(connection)
                finally:
                    connection.terminate()
                pooled = not await notifications_arrive(self._database)
                await self._database.open(pooled=pooled)
            self._signals.start()
            self._is_open = True

    async def close(self) -> None:
        async with self._opening:
            if not self._is_open:
                return
            self._is_open = False
            await self._results.stop()
            await self._stream.stop()
            await self._signals.stop()
            await asyncio.to_thread(self._heartbeat.close)
            await self._database.close()

    async def migrate(self) -> list[str]:
        return await self._schema.migrate()

    async def migration_status(self) -> list[MigrationStatus]:
        """Each migration and when it was applied; newer ones than this code knows come last."""
        return await self._schema.status()

    async def validate(self) -> list[str]:
        """What is wrong with the schema, in words; empty when nothing is."""
        return await self._schema.validate()

    def migration_sql(self) -> str:
        """All migrations as one script."""
        return self._schema.text()

    async def get_result(self, queue: str, activity_id: UUID) -> ActivityResult | None:
        return await self._results.get(queue, activity_id)

    async def wait_for_result(
        self, queue: str, activity_id: UUID, timeout: float
    ) -> ActivityResult | None:
        return await self._results.wait(queue, activity_id, timeout)

    async def enqueue(self, queue: str, specs: Sequence[ActivitySpec]) -> list[Enqueued]:
        return await self._enqueuer.enqueue(queue, specs)

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        return await self._claims.claim(request)

    async def acknowledge(
        self, queue: str, acknowledgements: Sequence[Acknowledgement]
    ) -> list[Acknowledged]:
        return await self._acknowledger.acknowledge(queue, acknowledgements)

    async def extend_lease(self, queue: str, claims: Sequence[ClaimRef], by_ms: int) -> list[bool]:
        return await self._leases.extend(queue, claims, by_ms)

    async def still_held(self, queue: str, claims: Sequence[ClaimRef]) -> list[bool]:
        return await self._leases.held(queue, claims)

    async def reap(self, queue: str, *, limit: int, liveness_ms: int) -> list[Reaped]:
        return await self._leases.reap(queue, limit, liveness_ms)

    async def process_scheduled(self, queue: str, *, limit: int) -> int:
        return 0

    async def register_engine(self, queue: str, engine: EngineInfo) -> None:
        self._signals.expect_awaited()
        await self._engines.register(queue, engine)

    async def heartbeat(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        return await self._engines.heartbeat(queue, beat)

    def heartbeat_blocking(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        if not self._is_open:
            raise StorageError("the backend is not open; call `await backend.open()` first")
        return self._heartbeat.beat(queue, beat)

    async def retire_engine(self, queue: str, engine_id: UUID) -> None:
        await self._claims.release_unanswered(queue, engine_id)
        await self._engines.retire(queue, engine_id)

    def work_signal(self, queue: str) -> WorkSignal:
        return self._signals.work_arrived.of(queue)

    async def stats(self, queue: str) -> QueueStats:
        return await self._inspection.stats(queue)

    async def list_activities(
        self,
        queue: str,
        state: ActivityState,
        *,
        limit: int = 50,
        cursor: str | None = None,
        activity_type: str | None = None,
    ) -> Page:
        return await self._inspection.page(
            queue, state, limit=limit, cursor=cursor, activity_type=activity_type
        )

    async def get_activity(self, queue: str, activity_id: UUID) -> ActivitySnapshot:
        return await self._inspection.activity(queue, activity_id)

    async def get_activity_events(self, queue: str, activity_id: UUID) -> list[ActivityEvent]:
        return await self._inspection.events(queue, activity_id)

    async def list_queues(self) -> list[str]:
        return await self._inspection.queues()

    def event_stream(
        self, queue: str
    ) -> AbstractAsyncContextManager[AsyncIterator[ActivityEvent | StreamGap]]:
        return self._stream.subscribe(queue)

    async def demand(self, queues: Sequence[str], *, horizon_ms: int) -> list[QueueDemand]:
        return await self._inspection.demand(queues, horizon_ms)

    async def requeue_dead_letters(
        self, queue: str, activity_ids: Sequence[UUID], *, actor: str
    ) -> list[bool]:
        return await self._requeuer.requeue(queue, activity_ids, actor)

    async def cordon(self, queue: str, engine_ids: Sequence[UUID], *, cordoned: bool) -> None:
        await self._fleet.cordon(queue, engine_ids, cordoned=cordoned)

    async def record_decision(self, decision: DecisionRecord) -> None:
        await self._fleet.record_decision(decision)

    async def decisions(
        self, queue: str, *, pool: str | None = None, limit: int = 50
    ) -> list[DecisionRecord]:
        return await self._fleet.decisions(queue, pool, limit)

    async def record_pods(self, queue: str, pods: Sequence[PodRecord]) -> None:
        await self._fleet.record_pods(queue, pods)

    async def pods(self, queue: str) -> list[PodRecord]:
        return await self._fleet.pods(queue)
