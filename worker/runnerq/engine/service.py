"""Service: a loop with an owner. Started once, stopped once, never left behind.

A service whose loop raises is restarted after a pause, and the failure is logged: an engine that is
alive but has lost one of its loops would look healthy and do nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0


class Service(ABC):
    """Base of the engine's loops. Subclasses write `run`, which ends only by cancellation."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._task: asyncio.Task[None] | None = None

    @abstractmethod
    async def run(self) -> None: ...

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._supervise(), name=f"runnerq-{self.name}")

    @property
    def abandoned(self) -> bool:
        """Cancelled, and not by `stop`: the event loop is ending everything that runs on it."""
        task = self._task
        return task is not None and (task.done() or task.cancelling() > 0)

    async def stop(self) -> None:
        """Cancel the loop and wait for its end. Harmless when not running."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        # gather returns the task's CancelledError as a value; our own cancellation still propagates.
        await asyncio.gather(task, return_exceptions=True)

    async def _supervise(self) -> None:
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                await self.run()
            except Exception:
                log.exception("service %s failed; it starts again in %.1f s", self.name, pause)
            await asyncio.sleep(pause)
            # A loop that ran well for a while has another fault now, not the same one again.
            steady = time.monotonic() - began > 10 * LONGEST_PAUSE
            pause = FIRST_PAUSE if steady else min(pause * 2, LONGEST_PAUSE)
