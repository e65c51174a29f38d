"""ThreadSlots: plain handlers in daemon threads.

The standard executor joins its threads at exit, so a handler that sleeps for ever would keep the
process alive after its timeout. Here such a thread is left behind, its slot goes to a new thread, and
the process can end. All bookkeeping is done on the event loop.
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

_Job = tuple["Callable[[], Any]", "asyncio.Future[Any]"]


class HandlerThread:
    """One thread, one function at a time."""

    def __init__(self) -> None:
        self.busy = False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._on_idle: Callable[[], None] | None = None
        threading.Thread(target=self._work, name="runnerq-sync", daemon=True).start()

    async def run(self, function: Callable[[], Any]) -> Any:
        """The function's result from the thread, in a copy of the current context. When the caller is
        cancelled the function goes on, and the thread stays busy."""
        context = contextvars.copy_context()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.busy = True
        self._jobs.put((lambda: context.run(function), future))
        return await future

    def end(self, *, when_idle: Callable[[], None] | None = None) -> None:
        """The thread ends once it is idle."""
        self._on_idle = when_idle
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._do(*job)
            # An idle thread must not keep the last payload and result alive.
            del job

    def _do(self, function: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        result, error = None, None
        try:
            try:
                result = function()
            except BaseException as raised:  # noqa: BLE001 - handed to the awaiting runner, which decides
                error = raised
            future.get_loop().call_soon_threadsafe(self._settle, future, result, error)
        except RuntimeError:
            log.debug("the loop closed before a sync handler ended")
        finally:
            del function, future, result, error  # a traceback and its frame would hold each other

    def _settle(
        self, future: asyncio.Future[Any], result: Any, error: BaseException | None
    ) -> None:
        self.busy = False
        if self._on_idle is not None:
            self._on_idle()
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration | GeneratorExit):
            # Thrown into the awaiting coroutine they would mean something else.
            wrapped = RuntimeError(f"the handler raised {type(error).__name__}")
            wrapped.__cause__ = error
            future.set_exception(wrapped)
        else:
            future.set_exception(error)


class ThreadSlots:
    """At most `limit` threads work. Threads that outlive their attempt do not count, up to another
    `limit` of them: beyond that a hanging handler costs slots, or it would cost all memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = asyncio.Semaphore(limit)
        self._idle: list[HandlerThread] = []
        self._abandoned: set[HandlerThread] = set()
        self._withheld = 0

    @property
    def abandoned(self) -> int:
        """Threads still inside a handler whose attempt has ended."""
        return len(self._abandoned)

    async def acquire(self) -> HandlerThread:
        await self._free.acquire()
        try:
            return self._idle.pop() if self._idle else HandlerThread()
        except BaseException:  # the machine has no thread left to give
            self._free.release()
            raise

    def release(self, thread: HandlerThread) -> None:
        if not thread.busy:
            self._idle.append(thread)
            self._free.release()
            return
        self._abandoned.add(thread)
        thread.end(when_idle=lambda: self._came_back(thread))
        log.warning("a sync handler outlives its attempt; %d such threads now", self.abandoned)
        if self.abandoned <= self._limit:
            self._free.release()
        else:
            self._withheld += 1
            log.error("too many sync handlers hang; their slots are free again when they end")

    def close(self) -> None:
        """Idle threads end; abandoned ones after their handler."""
        for thread in self._idle:
            thread.end()
        self._idle.clear()

    def _came_back(self, thread: HandlerThread) -> None:
        self._abandoned.discard(thread)
        if self._withheld:
            self._withheld -= 1
            self._free.release()
