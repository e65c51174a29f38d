"""ThreadSlots: plain handlers in daemon threads.

The standard executor joins its threads at exit, so a handler that sleeps for ever would keep the
process alive after its timeout. Here such a thread is left behind: its slot is given to a new thread
and the process can end.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import queue
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)


class _Job:
    __slots__ = ("abandoned", "finished", "function", "future", "loop", "taken")

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.function = function
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.taken = False
        self.finished = False
        self.abandoned = False


class ThreadSlots:
    """At most `limit` threads work; abandoned ones do not count."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._queued = 0
        self._abandoned = 0

    @property
    def abandoned(self) -> int:
        """Threads still inside a handler whose attempt has ended."""
        return self._abandoned

    async def run(self, function: Callable[[], Any]) -> Any:
        """The function's result from a thread, in a copy of the current context. When the caller is
        cancelled, the thread is abandoned to finish alone."""
        context = contextvars.copy_context()
        job = _Job(lambda: context.run(function), asyncio.get_running_loop())
        job.future.add_done_callback(lambda _: self._abandon(job))
        with self._lock:
            self._queued += 1
            self._jobs.put(job)
            self._grow()
        return await job.future

    def close(self) -> None:
        """Idle threads end; busy ones after their handler."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)

    def _grow(self) -> None:
        """With the lock held: start a thread if jobs wait that no idle thread will take."""
        if self._queued > self._idle and self._threads < self._limit:
            self._threads += 1
            threading.Thread(target=self._work, name="runnerq-sync", daemon=True).start()

    def _abandon(self, job: _Job) -> None:
        """On the loop, when the future is done: if it was cancelled, the thread is on its own."""
        with self._lock:
            if job.finished or not job.future.cancelled():
                return
            job.abandoned = True
            if job.taken:
                self._threads -= 1
                self._abandoned += 1
                self._grow()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            job = self._jobs.get()
            with self._lock:
                self._idle -= 1
                if job is None:
                    self._threads -= 1
                    return
                self._queued -= 1
                if job.abandoned:
                    continue
                job.taken = True
            if self._do(job):
                return

    def _do(self, job: _Job) -> bool:
        """Run one job. True: this thread was given up meanwhile and must end."""
        result, error = None, None
        try:
            result = job.function()
        except BaseException as raised:  # noqa: BLE001 - handed to the awaiting runner, which decides
            error = raised
        with self._lock:
            job.finished = True
            if job.abandoned:
                self._abandoned -= 1
                return True
        try:
            job.loop.call_soon_threadsafe(_settle, job.future, result, error)
        except RuntimeError:
            log.debug("the loop closed before a sync handler ended")
        return False


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):
        # A future refuses StopIteration; it would end the awaiting generator.
        future.set_exception(RuntimeError("the handler raised StopIteration"))
    else:
        future.set_exception(error)
