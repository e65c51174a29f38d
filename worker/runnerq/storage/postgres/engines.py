"""Engines: one row per engine process, and the heartbeat that keeps it alive.

The heartbeat of a running engine comes from a thread, on a connection and an event loop of its own, so
that it is written while the main loop is blocked.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from runnerq.storage.postgres.codes import ENGINE_CODE
from runnerq.storage.postgres.connections import CLIENT_SECONDS, LOCAL_SETTINGS
from runnerq.storage.postgres.errors import boundary
from runnerq.storage.postgres.values import counters_bytes
from runnerq.storage.records import HeartbeatReply

if TYPE_CHECKING:
    from uuid import UUID

    from asyncpg import Record
    from asyncpg.connection import Connection

    from runnerq.storage.postgres.connections import Database
    from runnerq.storage.postgres.names import Names
    from runnerq.storage.records import EngineInfo, Heartbeat

_BEAT_SECONDS = 4.0
"""A beat that takes longer has failed: another is due soon, and work is taken back after 15 s."""


class Engines:
    def __init__(self, database: Database, names: Names) -> None:
        self._database = database
        self._names = names

    async def register(self, queue: str, engine: EngineInfo) -> None:
        await self._database.fetch(
            "register_engine",
            engine.engine_id,
            await self._names.queue(queue),
            engine.worker_id,
            engine.host,
            engine.pid,
            engine.slots,
            list(engine.types),
            engine.pool,
            engine.pod,
            engine.build_id,
            engine.version,
        )

    async def heartbeat(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        return _reply(await self._database.fetch("heartbeat", *_parameters(queue, beat)))

    async def retire(self, queue: str, engine_id: UUID) -> None:
        await self._database.fetch("retire_engine", engine_id, await self._names.queue(queue))


class HeartbeatThread:
    """Beats without the caller's event loop: for one thread at a time that runs none itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Connection[Record] | None = None

    def beat(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        with self._lock, boundary("write the heartbeat"):
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
            return self._loop.run_until_complete(self._beat(queue, beat))

    def close(self) -> None:
        """From any thread without a running event loop."""
        with self._lock:
            loop, self._loop = self._loop, None
            connection, self._connection = self._connection, None
            if loop is not None:
                if connection is not None:
                    loop.run_until_complete(_closed(connection))
                loop.close()

    async def _beat(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        try:
            async with asyncio.timeout(_BEAT_SECONDS):
                connection = self._connection
                if connection is None or connection.is_closed():
                    connection = self._connection = await self._database.connect(
                        session=not self._database.pooled
                    )
                statement = self._database.statements["heartbeat"]
                if not self._database.pooled:
                    return _reply(await connection.fetch(statement, *_parameters(queue, beat)))
                async with connection.transaction():
                    await connection.execute(LOCAL_SETTINGS)
                    return _reply(await connection.fetch(statement, *_parameters(queue, beat)))
        except BaseException:
            # Whatever it was, the next beat starts with a connection that nothing is known against.
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None
            raise


async def _closed(connection: Connection[Record]) -> None:
    try:
        await connection.close(timeout=CLIENT_SECONDS)
    except OSError:
        connection.terminate()


def _parameters(queue: str, beat: Heartbeat) -> tuple[object, ...]:
    return (
        beat.engine_id,
        queue,
        ENGINE_CODE[beat.state],
        beat.busy,
        counters_bytes(beat.counters),
    )


def _reply(rows: list[Record]) -> HeartbeatReply:
    if not rows:
        return HeartbeatReply(known=False)
    return HeartbeatReply(known=True, cordoned=rows[0]["cordoned"])
