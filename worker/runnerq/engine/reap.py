"""Reaper: gives work back whose owner is gone.

Runs in every engine; harmless when several run at once (the backend skips what another holds). The
backend decides what happens to an attempt, by the same rule as for a failed one.

    Processing --owner silent, or deadline passed--> Pending | DeadLetter
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from runnerq.engine.service import Service
from runnerq.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from runnerq.engine.config import EngineConfig
    from runnerq.storage.ports import QueueStorage
    from runnerq.storage.records import Reaped

log = logging.getLogger(__name__)


class Reaper(Service):
    def __init__(
        self,
        *,
        storage: QueueStorage,
        config: EngineConfig,
        on_reaped: Callable[[list[Reaped]], None],
    ) -> None:
        super().__init__("reaper")
        self._storage = storage
        self._config = config
        self._on_reaped = on_reaped

    async def run(self) -> None:
        every = self._config.reaper_interval
        while True:
            # Jittered, so that a fleet's reapers do not all come at once.
            await asyncio.sleep(every * random.uniform(0.8, 1.2))  # noqa: S311 - spreading load
            try:
                await self.sweep()
            except BackendUnavailable as error:
                log.warning("reaping in %s: %s", self._config.queue_name, error)

    async def sweep(self) -> int:
        """Take back everything that is due to be; how many activities that were."""
        total = 0
        while True:
            reaped = await self._storage.reap(
                self._config.queue_name,
                limit=self._config.reaper_batch,
                liveness_ms=round(self._config.liveness_timeout * 1000),
            )
            if reaped:
                total += len(reaped)
                log.warning("took %d activities back from owners that are gone", len(reaped))
                self._on_reaped(reaped)
            if len(reaped) < self._config.reaper_batch:
                return total
