"""Small periodic duties: promoting due work on backends that need it, and watching the event loop."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from runnerq.engine.service import Service
from runnerq.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from runnerq.engine.config import EngineConfig
    from runnerq.metrics import MetricsSink
    from runnerq.storage.ports import QueueStorage

log = logging.getLogger(__name__)

PROMOTE_BATCH = 100
LOOP_TICK = 0.1


class SchedulePromoter(Service):
    """Only for backends without `native_schedule`: moves due work to where it can be claimed."""

    def __init__(self, *, storage: QueueStorage, config: EngineConfig) -> None:
        super().__init__("schedule-promoter")
        self._storage = storage
        self._config = config

    async def run(self) -> None:
        while True:
            try:
                while (
                    await self._storage.process_scheduled(
                        self._config.queue_name, limit=PROMOTE_BATCH
                    )
                    == PROMOTE_BATCH
                ):
                    pass
            except BackendUnavailable as error:
                log.warning("promoting due work: %s", error)
            await asyncio.sleep(self._config.schedule_poll_interval)


class LoopWatch(Service):
    """Measures by how much a 100 ms tick comes late: a handler that blocks the loop shows here."""

    def __init__(self, *, metrics: MetricsSink, gauges: Callable[[], None]) -> None:
        super().__init__("loop-watch")
        self._metrics = metrics
        self._gauges = gauges

    async def run(self) -> None:
        while True:
            due = time.monotonic() + LOOP_TICK
            await asyncio.sleep(LOOP_TICK)
            self._metrics.observe_duration(
                "runnerq_event_loop_lag_seconds", max(0.0, time.monotonic() - due)
            )
            self._gauges()
