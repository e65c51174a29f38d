"""Sampler: looks at one queue every few seconds, once for everybody.

Each look feeds the live topics, the charts' series and the metrics, so that neither a hundred open
pages nor a scrape cost the backend more than one does. Looks less often while nobody watches.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from runnerq.console.problems import Problem
from runnerq.console.series import Series, Throughput, point_document
from runnerq.console.topics import point, topic_documents

if TYPE_CHECKING:
    from collections.abc import Callable

    from runnerq.console.reads import Reads
    from runnerq.console.stream import Feed
    from runnerq.console.topics import Readings

logger = logging.getLogger(__name__)

SAMPLE_SECONDS = 2.0
UNWATCHED = 2.5
"""So many times less often while nobody watches: as often as engines report."""


class Sampler:
    def __init__(
        self,
        reads: Reads,
        feed: Feed,
        *,
        always: bool,
        seen: Callable[[Readings], None],
        every_seconds: float = SAMPLE_SECONDS,
    ) -> None:
        """`always`: also while nobody watches, as for the queue that the metrics are about."""
        self.series = Series()
        self._reads = reads
        self._feed = feed
        self._always = always
        self._seen = seen
        self._every_seconds = every_seconds
        self._throughput = Throughput()

    @property
    def rate(self) -> float | None:
        """Attempts finished per second; None while unknown."""
        return self._throughput.rate

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if not self._always:
                await self._feed.occupied.wait()
            try:
                await self._look()
            except Exception:
                # One answer that cannot be shown must not stop the ones after it.
                logger.exception("could not take in a look at queue %r", self._feed.queue)
            await self._pause()

    async def _look(self) -> None:
        queue = self._feed.queue
        readings = await self._reads.look(queue)
        demand = readings.demand
        if isinstance(demand, Problem):
            self._throughput = Throughput()
            rate = None
        else:
            rate = self._throughput.read(demand)
        self._seen(readings)
        self._feed.publish(topic_documents(queue, readings, rate))
        sample = point(readings, rate, now_ms=time.time_ns() // 1_000_000)
        self.series.append(sample)
        self._feed.append_point(point_document(sample))

    async def _pause(self) -> None:
        if self._feed.occupied.is_set():
            await asyncio.sleep(self._every_seconds)
            return
        try:
            async with asyncio.timeout(self._every_seconds * UNWATCHED):
                await self._feed.occupied.wait()
        except TimeoutError:
            return
