"""Wakes a queue that has a pool at zero: from zero to the first worker nobody waits for a tick.

While other pools keep the queue's signal busy without that pool being meant, it backs off towards the
tick, so that a queue under load is not read at every enqueue.

    idle --arm--> armed --signal--> wake() --> idle
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from runnerq.errors import RunnerQError
from runnerq.storage.ports import WorkSignal

logger = logging.getLogger(__name__)

_SHORTEST_GAP = 0.05
_WAIT_SECONDS = 30.0


class Waker:
    """Of one queue. `run` is a task of the controller."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._armed = asyncio.Event()
        self._signal: WorkSignal | None = None
        self._seen = 0
        self._gap = _SHORTEST_GAP
        self._woke_last = False

    def arm(self, signal: WorkSignal | None, seen: int, *, longest_gap: float) -> None:
        """Wait for the signal to differ from `seen`; None: nothing is at zero, so do not wait."""
        self._signal, self._seen = signal, seen
        if signal is None:
            self._armed.clear()
            self._gap = _SHORTEST_GAP
            return
        if self._woke_last:
            # Woken and still at zero: it was not for this pool.
            self._gap = min(self._gap * 2, longest_gap)
        self._woke_last = False
        self._armed.set()

    async def run(self) -> None:
        while True:
            await self._armed.wait()
            signal, seen = self._signal, self._seen
            if signal is None:
                self._armed.clear()
                continue
            await asyncio.sleep(self._gap)
            if signal.version() == seen:
                # Quiet meanwhile: what comes next may well be meant for us.
                self._gap = _SHORTEST_GAP
            try:
                changed = await signal.wait(seen, _WAIT_SECONDS) != seen
            except RunnerQError as error:
                logger.debug("waiting for work failed: %s", error)
                await asyncio.sleep(1.0)
                continue
            if changed and self._armed.is_set() and self._seen == seen:
                self._armed.clear()
                self._woke_last = True
                self._wake()
