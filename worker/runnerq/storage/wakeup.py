"""Wakeup: a version counter that tasks wait on; the `WorkSignal` of backends in this process.

May be notified from any thread and waited on from any event loop: the sync facade and the heartbeat
thread live outside the engine's loop.
"""

from __future__ import annotations

import asyncio
import threading


class Wakeup:
    """Implements `storage.ports.WorkSignal`; `notify` is its sending side."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = 0
        self._waiters: set[asyncio.Future[None]] = set()

    def version(self) -> int:
        return self._version

    def notify(self) -> None:
        with self._lock:
            self._version += 1
            waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            loop = waiter.get_loop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, waiter)

    async def wait(self, seen: int, timeout: float) -> int:
        """The version once it differs from `seen`, at the latest after `timeout` seconds."""
        with self._lock:
            if self._version != seen:
                return self._version
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
        try:
            await asyncio.wait((waiter,), timeout=timeout)
        finally:
            with self._lock:
                self._waiters.discard(waiter)
            waiter.cancel()
        return self._version


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
