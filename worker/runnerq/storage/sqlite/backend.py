"""SqliteBackend: all of `storage.ports.Storage` on one file that several processes may share.

Nothing here runs on the event loop but the waiting: writes go to one thread, reads to others, and a
third watches for what other processes did. What the calls mean is in the modules they are handed to.
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from runnerq.clock import Clock, SystemClock
from runnerq.errors import BackendUnavailable, ConfigurationError, SchemaMismatch
from runnerq.storage.ports import Capabilities
from runnerq.storage.records import Acknowledgement, OutcomeKind
from runnerq.storage.sqlite import claims as claiming
from runnerq.storage.sqlite import fleet, inspection, reap, schema
from runnerq.storage.sqlite.acknowledge import acknowledge
from runnerq.storage.sqlite.changes import ChangeWatcher
from runnerq.storage.sqlite.connection import connect, patiently, translated
from runnerq.storage.sqlite.enqueue import enqueue
from runnerq.storage.sqlite.queries import load_queries
from runnerq.storage.sqlite.readers import Readers
from runnerq.storage.sqlite.session import Effects, Session
from runnerq.storage.sqlite.stream import LiveStream
from runnerq.storage.sqlite.waiting import Waiting
from runnerq.storage.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    from runnerq.storage.ports import WorkSignal
    from runnerq.storage.records import (
        Acknowledged,
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

_RECHECK_SECONDS = 2.0
"""A waiter for a result looks this often even if nobody wakes it."""


@dataclass(slots=True, frozen=True)
class _Open:
    """What exists between `open` and `close`."""

    queries: Mapping[str, str]
    writer: Writer
    readers: Readers
    watcher: ChangeWatcher
    pulse: sqlite3.Connection


class SqliteBackend:
    """`path` is the file; `migrate` makes it.

    >>> SqliteBackend("/var/lib/app/queue.db", "orders").default_queue
    'orders'
    """

    def __init__(
        self, path: str | Path, queue: str = "default", *, clock: Clock | None = None
    ) -> None:
        if str(path) in ("", ":memory:"):
            raise ConfigurationError(
                "SQLite needs a file, its connections are several; use memory:// for no file",
                field="path",
            )
        self._path = Path(path)
        self._queue = queue
        self._clock = clock or SystemClock()
        self._opening = asyncio.Lock()
        self._is_open: _Open | None = None
        self._waiting = Waiting()
        self._stream = LiveStream(lambda: self._opened().writer)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(name="sqlite", native_schedule=True)

    @property
    def default_queue(self) -> str:
        return self._queue

    async def open(self) -> None:
        async with self._opening:
            if self._is_open is None:
                self._is_open = await asyncio.to_thread(self._open)

    async def close(self) -> None:
        async with self._opening:
            parts, self._is_open = self._is_open, None
            if parts is not None:
                await asyncio.to_thread(_close, parts)

    async def migrate(self) -> list[str]:
        return await asyncio.to_thread(schema.migrate, self._path)

    async def migration_status(self) -> list[schema.MigrationStatus]:
        """Each migration and when it was applied."""
        return await asyncio.to_thread(schema.status, self._path)

    async def validate(self) -> list[str]:
        """What is wrong with the schema, in words; empty when nothing is."""
        try:
            await asyncio.to_thread(schema.verify, self._path)
        except SchemaMismatch as mismatch:
            return [str(mismatch)]
        return []

    def migration_sql(self) -> str:
        """All migrations as one script."""
        return schema.script()

    def _open(self) -> _Open:
        schema.verify(self._path)
        queries = load_queries()
        parts = _Open(
            queries=queries,
            writer=Writer(self._path, queries, self._clock, self._committed),
            readers=Readers(self._path, queries, self._clock),
            watcher=ChangeWatcher(self._path, queries, self._clock, self._changed, self._looked),
            pulse=connect(self._path),
        )
        parts.writer.start()
        parts.watcher.start()
        return parts

    def _opened(self) -> _Open:
        if self._is_open is None:
            raise BackendUnavailable(f"sqlite file {self._path} is not open; await open() first")
        return self._is_open

    def _committed(self, effects: Effects) -> None:
        """This process wrote. Called from the writer's thread."""
        self._waiting.work_came(effects.woken)
        self._waiting.ended(effects.ended)
        parts = self._is_open
        if effects.recorded and parts is not None:
            parts.watcher.look_now()

    def _changed(self, session: Session) -> None:
        """Any process wrote. Called from the watcher's thread."""
        self._waiting.something_changed(session)

    def _looked(self, session: Session) -> None:
        """Some time passed. Called from the watcher's thread."""
        if self._stream.open:
            self._stream.renew(session)
            self._stream.deliver(session)

    async def get_result(self, queue: str, activity_id: UUID) -> ActivityResult | None:
        return await self._opened().readers.run(lambda s: inspection.result(s, queue, activity_id))

    async def wait_for_result(
        self, queue: str, activity_id: UUID, timeout: float
    ) -> ActivityResult | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        with self._waiting.for_end(activity_id) as ended:
            while True:
                seen = ended.version()
                result = await self.get_result(queue, activity_id)
                left = until - loop.time()
                if result is not None or left <= 0:
                    return result
                await ended.wait(seen, min(left, _RECHECK_SECONDS))

    async def enqueue(self, queue: str, specs: Sequence[ActivitySpec]) -> list[Enqueued]:
        return await self._opened().writer.run(lambda tx: enqueue(tx, queue, specs))

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        if request.limit < 1:
            return []
        parts = self._opened()
        # Idle engines only read: they take the write lock from nobody.
        if not await parts.readers.run(lambda s: claiming.heads(s, request.queue, request.types)):
            return []
        taking = parts.writer.submit(lambda tx: claiming.claim(tx, request))
        try:
            return await asyncio.wrap_future(taking)
        except asyncio.CancelledError:
            # The writer may be at it already, and nobody will run what it hands out.
            taking.add_done_callback(lambda taken: _give_back(parts.writer, request.queue, taken))
            raise

    async def acknowledge(
        self, queue: str, acknowledgements: Sequence[Acknowledgement]
    ) -> list[Acknowledged]:
        return await self._opened().writer.run(
            lambda tx: [acknowledge(tx, queue, one) for one in acknowledgements]
        )

    async def extend_lease(self, queue: str, claims: Sequence[ClaimRef], by_ms: int) -> list[bool]:
        return await self._opened().writer.run(lambda tx: claiming.extend(tx, queue, claims, by_ms))

    async def still_held(self, queue: str, claims: Sequence[ClaimRef]) -> list[bool]:
        return await self._opened().readers.run(lambda s: claiming.held(s, queue, claims))

    async def reap(self, queue: str, *, limit: int, liveness_ms: int) -> list[Reaped]:
        return await self._opened().writer.run(
            lambda tx: reap.reap(tx, queue, limit=limit, liveness_ms=liveness_ms)
        )

    async def process_scheduled(self, queue: str, *, limit: int) -> int:
        return 0

    async def register_engine(self, queue: str, engine: EngineInfo) -> None:
        await self._opened().writer.run(lambda tx: fleet.register(tx, queue, engine))

    async def heartbeat(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        return await self._opened().writer.run(lambda tx: fleet.heartbeat(tx, queue, beat))

    def heartbeat_blocking(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        parts = self._opened()
        connection = parts.pulse
        try:
            patiently(connection, "BEGIN IMMEDIATE")
            try:
                reply = fleet.heartbeat(
                    Session(connection, parts.queries, self._clock), queue, beat
                )
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            patiently(connection, "COMMIT")
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        return reply

    async def retire_engine(self, queue: str, engine_id: UUID) -> None:
        await self._opened().writer.run(lambda tx: fleet.retire(tx, queue, engine_id))

    def work_signal(self, queue: str) -> WorkSignal:
        return self._waiting.for_work(queue)

    async def stats(self, queue: str) -> QueueStats:
        return await self._opened().readers.run(lambda s: inspection.stats(s, queue))

    async def list_activities(
        self,
        queue: str,
        state: ActivityState,
        *,
        limit: int = 50,
        cursor: str | None = None,
        activity_type: str | None = None,
    ) -> Page:
        return await self._opened().readers.run(
            lambda s: inspection.page(
                s, queue, state, limit=limit, cursor=cursor, activity_type=activity_type
            )
        )

    async def get_activity(self, queue: str, activity_id: UUID) -> ActivitySnapshot:
        return await self._opened().readers.run(
            lambda s: inspection.snapshot(s, queue, activity_id)
        )

    async def get_activity_events(self, queue: str, activity_id: UUID) -> list[ActivityEvent]:
        return await self._opened().readers.run(lambda s: inspection.events(s, queue, activity_id))

    async def list_queues(self) -> list[str]:
        return await self._opened().readers.run(inspection.queues)

    def event_stream(
        self, queue: str
    ) -> AbstractAsyncContextManager[AsyncIterator[ActivityEvent | StreamGap]]:
        return self._stream.subscribe(queue)

    async def demand(self, queues: Sequence[str], *, horizon_ms: int) -> list[QueueDemand]:
        return await self._opened().readers.run(
            lambda s: [inspection.demand(s, queue, horizon_ms=horizon_ms) for queue in queues]
        )

    async def requeue_dead_letters(
        self, queue: str, activity_ids: Sequence[UUID], *, actor: str
    ) -> list[bool]:
        return await self._opened().writer.run(
            lambda tx: [reap.requeue(tx, queue, one, actor=actor) for one in activity_ids]
        )

    async def cordon(self, queue: str, engine_ids: Sequence[UUID], *, cordoned: bool) -> None:
        await self._opened().writer.run(
            lambda tx: fleet.cordon(tx, queue, engine_ids, cordoned=cordoned)
        )

    async def record_decision(self, decision: DecisionRecord) -> None:
        await self._opened().writer.run(lambda tx: fleet.record_decision(tx, decision))

    async def decisions(
        self, queue: str, *, pool: str | None = None, limit: int = 50
    ) -> list[DecisionRecord]:
        return await self._opened().readers.run(
            lambda s: fleet.decisions(s, queue, pool=pool, limit=limit)
        )

    async def record_pods(self, queue: str, pods: Sequence[PodRecord]) -> None:
        await self._opened().writer.run(lambda tx: fleet.record_pods(tx, queue, pods))

    async def pods(self, queue: str) -> list[PodRecord]:
        return await self._opened().readers.run(lambda s: fleet.pods(s, queue))


def _give_back(writer: Writer, queue: str, taken: Future[list[Claim]]) -> None:
    """Release what a claim took whose caller is gone; no attempt is counted."""
    if taken.cancelled() or taken.exception() is not None:
        return
    releases = [
        Acknowledgement(id=claim.id, token=claim.token, kind=OutcomeKind.RELEASED)
        for claim in taken.result()
    ]
    # A backend that was closed meanwhile leaves the claims to their deadline.
    with suppress(BackendUnavailable):
        writer.submit(lambda tx: [acknowledge(tx, queue, release) for release in releases])


def _close(parts: _Open) -> None:
    parts.watcher.close()
    parts.writer.close()
    parts.readers.close()
    parts.pulse.close()
