"""The one thread of this process that writes: it commits whatever has piled up in one transaction.

SQLite lets one writer in at a time, so piling up is not lost time: while one batch is being synced to
disk the next one gathers. Each piece of work has its own savepoint; its failure is its own. A caller
is answered after the commit, never before.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from runnerq.errors import BackendUnavailable
from runnerq.storage.sqlite.connection import connect, patiently, translated
from runnerq.storage.sqlite.session import Effects, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from runnerq.clock import Clock

T = TypeVar("T")

_MOST_PER_COMMIT = 256


@dataclass(slots=True)
class _Job:
    work: Callable[[Transaction], Any]
    answer: Future[Any]
    outcome: Any = None
    error: BaseException | None = None
    effects: Effects | None = None


class Writer:
    def __init__(
        self,
        path: Path,
        queries: Mapping[str, str],
        clock: Clock,
        committed: Callable[[Effects], None],
    ) -> None:
        """`committed` is called from the writer's thread after each commit."""
        self._path = path
        self._queries = queries
        self._clock = clock
        self._committed = committed
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._connection = connect(path)
        self._thread = threading.Thread(target=self._run, name="runnerq-sqlite-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Commit what was handed in before, then end. Blocks; idempotent."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()
        self._connection.close()

    def submit(self, work: Callable[[Transaction], T]) -> Future[T]:
        answer: Future[Any] = Future()
        with self._closing:
            if self._closed:
                raise BackendUnavailable(f"sqlite file {self._path}: the backend is closed")
            self._jobs.put(_Job(work, answer))
        return cast("Future[T]", answer)

    async def run(self, work: Callable[[Transaction], T]) -> T:
        """The work's answer, once it is durable."""
        return await asyncio.wrap_future(self.submit(work))

    def _run(self) -> None:
        open_ended = True
        while open_ended:
            jobs, open_ended = self._gather()
            if jobs:
                self._commit(jobs)

    def _gather(self) -> tuple[list[_Job], bool]:
        """Wait for one job, then take all that are there; False when told to end."""
        jobs: list[_Job] = []
        job = self._jobs.get()
        while job is not None:
            # A caller that was cancelled while its job waited wants nothing done.
            if job.answer.set_running_or_notify_cancel():
                jobs.append(job)
            if len(jobs) == _MOST_PER_COMMIT:
                return jobs, True
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, True
        return jobs, False

    def _commit(self, jobs: list[_Job]) -> None:
        connection = self._connection
        try:
            patiently(connection, "BEGIN IMMEDIATE")
            for job in jobs:
                self._perform(job)
            patiently(connection, "COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            for job in jobs:
                job.answer.set_exception(translated(error, self._path))
            return
        for job in jobs:
            if job.effects is not None:
                self._committed(job.effects)
        for job in jobs:
            if job.error is not None:
                job.answer.set_exception(job.error)
            else:
                job.answer.set_result(job.outcome)

    def _perform(self, job: _Job) -> None:
        connection = self._connection
        connection.execute("SAVEPOINT job")
        transaction = Transaction(connection, self._queries, self._clock)
        try:
            job.outcome = job.work(transaction)
            transaction.settle()
            job.effects = transaction.effects
        except Exception as error:
            if not connection.in_transaction:
                raise  # SQLite gave up the whole transaction: nobody's work is stored
            connection.execute("ROLLBACK TO job")
            job.error = translated(error, self._path) if isinstance(error, sqlite3.Error) else error
        connection.execute("RELEASE job")
