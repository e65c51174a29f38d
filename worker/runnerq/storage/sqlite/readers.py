"""Reading, off the event loop: a few threads, each read in a snapshot of its own that no writer delays."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from runnerq.errors import BackendUnavailable
from runnerq.storage.sqlite.connection import connect, translated
from runnerq.storage.sqlite.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from runnerq.clock import Clock

T = TypeVar("T")

_READERS = 2
"""So that one long list does not delay the look for work."""


class Readers:
    def __init__(self, path: Path, queries: Mapping[str, str], clock: Clock) -> None:
        self._path = path
        self._queries = queries
        self._clock = clock
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        for _ in range(_READERS):
            self._idle.put(connect(path))
        self._threads = ThreadPoolExecutor(_READERS, "runnerq-sqlite-reader")

    def close(self) -> None:
        """Finish what is being read. Blocks; idempotent."""
        self._threads.shutdown()
        while not self._idle.empty():
            self._idle.get().close()

    async def run(self, read: Callable[[Session], T]) -> T:
        try:
            reading = self._threads.submit(self._read, read)
        except RuntimeError as error:
            raise BackendUnavailable(f"sqlite file {self._path}: the backend is closed") from error
        return await asyncio.wrap_future(reading)

    def _read(self, read: Callable[[Session], T]) -> T:
        connection = self._idle.get()
        try:
            connection.execute("BEGIN")
            try:
                return read(Session(connection, self._queries, self._clock))
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise translated(error, self._path) from error
        finally:
            self._idle.put(connection)
