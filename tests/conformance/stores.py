"""The stores under test, behind one small protocol: how each is made, how its time passes.

Memory and SQLite are given a clock that the tests move. A Postgres server has its own clock, so the
passing of time is the same thing seen from the other side: every stored instant moves back.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import asyncpg

from runnerq.clock import SystemClock
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.postgres import PostgresBackend
from runnerq.storage.sqlite import SqliteBackend
from runnerq.testing.clock import VirtualClock

if TYPE_CHECKING:
    from datetime import timedelta
    from uuid import UUID

    from runnerq.storage.ports import Storage


_ADVANCE = Path(__file__).with_name("postgres_advance.sql")


class Store(Protocol):
    """One place where activities are kept, and what a test may do to it behind the backend's back."""

    name: str
    queue: str
    backend: Storage
    url: str
    """What another process opens it by; "" when none can."""
    schema: str | None

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Close the backend and all that `another` gave out."""
        ...

    async def another(self) -> Storage:
        """The store as a second process sees it: an open backend of its own, if there can be one."""
        ...

    async def advance(self, by: timedelta) -> None:
        """Let time pass for everything stored in the queue."""
        ...

    async def forget_engine(self, engine_id: UUID) -> None:
        """Delete an engine's row, as an over-eager clean-up would."""
        ...

    async def delete_activity(self, activity_id: UUID) -> None:
        """Delete a live activity's row, as a person with a console would."""
        ...


def _clock_from_now() -> VirtualClock:
    """Agrees with the machine's clock, by which child processes go, until it is advanced."""
    return VirtualClock(SystemClock().now_ms(), running=True)


class MemoryStore:
    """Reaches into the backend's private parts, since there is no other way in."""

    name = "memory"
    url = ""
    schema: str | None = None

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self._clock = _clock_from_now()
        self._backend = MemoryBackend(queue, clock=self._clock)
        self.backend: Storage = self._backend

    async def open(self) -> None:
        await self._backend.migrate()
        await self._backend.open()

    async def close(self) -> None:
        await self._backend.close()

    async def another(self) -> Storage:
        return self._backend

    async def advance(self, by: timedelta) -> None:
        self._clock.advance(by)

    async def forget_engine(self, engine_id: UUID) -> None:
        del self._backend._fleet._engines[self.queue][engine_id]  # pyright: ignore[reportPrivateUsage]

    async def delete_activity(self, activity_id: UUID) -> None:
        activities = self._backend._activities  # pyright: ignore[reportPrivateUsage]
        activities.processing(self.queue).pop(activity_id)
        del activities._rows[activity_id]  # pyright: ignore[reportPrivateUsage]


class SqliteStore:
    name = "sqlite"
    schema: str | None = None

    def __init__(self, queue: str, folder: Path) -> None:
        self.queue = queue
        self._path = folder / "queue.db"
        self.url = f"sqlite:///{self._path}"
        self._clock = _clock_from_now()
        self.sqlite = SqliteBackend(self._path, queue, clock=self._clock)
        self.backend: Storage = self.sqlite
        self._others: list[Storage] = []

    async def open(self) -> None:
        await self.backend.migrate()
        await self.backend.open()

    async def close(self) -> None:
        for backend in (self.backend, *self._others):
            await backend.close()

    async def another(self) -> Storage:
        backend = SqliteBackend(self._path, self.queue, clock=self._clock)
        await backend.open()
        self._others.append(backend)
        return backend

    async def advance(self, by: timedelta) -> None:
        self._clock.advance(by)

    async def forget_engine(self, engine_id: UUID) -> None:
        self._execute("DELETE FROM runnerq_engines WHERE engine_id = ?", engine_id)

    async def delete_activity(self, activity_id: UUID) -> None:
        self._execute("DELETE FROM runnerq_activities WHERE id = ?", activity_id)

    def _execute(self, statement: str, row_id: UUID) -> None:
        connection = sqlite3.connect(self._path, timeout=10)
        with connection:
            connection.execute(statement, (row_id.bytes,))
        connection.close()


class PostgresStore:
    """One schema for a whole session, a queue for each test."""

    def __init__(self, name: str, queue: str, url: str, schema: str) -> None:
        self.name = name
        self.queue = queue
        self.url = url
        self.schema: str | None = schema
        self.backend: Storage = self._make()
        self._others: list[Storage] = []

    def _make(self) -> Storage:
        return PostgresBackend(self.url, self.queue, schema=self.schema or "", max_connections=5)

    async def open(self) -> None:
        await self.backend.open()

    async def close(self) -> None:
        for backend in (self.backend, *self._others):
            await backend.close()

    async def another(self) -> Storage:
        backend = self._make()
        await backend.open()
        self._others.append(backend)
        return backend

    async def advance(self, by: timedelta) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            async with connection.transaction():
                await connection.execute(f'SET LOCAL search_path TO "{self.schema}"')
                for statement in _ADVANCE.read_text().split(";\n"):
                    if "UPDATE" in statement:
                        await connection.execute(statement, by, self.queue)
        finally:
            await connection.close()

    async def forget_engine(self, engine_id: UUID) -> None:
        await self._execute("DELETE FROM runnerq_engines WHERE engine_id = $1", engine_id)

    async def delete_activity(self, activity_id: UUID) -> None:
        await self._execute("DELETE FROM runnerq_activities WHERE id = $1", activity_id)

    async def _execute(self, statement: str, row_id: UUID) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(f'SET search_path TO "{self.schema}"')
            await connection.execute(statement, row_id)
        finally:
            await connection.close()
