"""Hub: owns the live feeds and samplers of all queues that somebody looked at.

A service: `start` before the first request, `stop` after the last. Everything it runs is in one task
group, so nothing outlives it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from runnerq.console.sampler import SAMPLE_SECONDS, Sampler
from runnerq.console.stream import Feed

if TYPE_CHECKING:
    from runnerq.console.metrics import ConsoleMetrics, QueueGauges
    from runnerq.console.reads import Reads

logger = logging.getLogger(__name__)


class Watch(NamedTuple):
    feed: Feed
    sampler: Sampler


class Hub:
    def __init__(
        self,
        reads: Reads,
        metrics: ConsoleMetrics,
        gauges: QueueGauges,
        *,
        sample_seconds: float = SAMPLE_SECONDS,
    ) -> None:
        self._sample_seconds = sample_seconds
        self._reads = reads
        self._metrics = metrics
        self._gauges = gauges
        self._watches: dict[str, Watch] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._main: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look at the default queue."""
        if self._main is not None:
            return
        running = asyncio.Event()
        self._main = asyncio.create_task(self._run(running), name="console-hub")
        await running.wait()
        self.watch(self._reads.queue)

    def watch(self, queue: str) -> Watch:
        """The feed and sampler of a queue that is known to exist; made on first use, then kept: an
        unwatched one only waits."""
        if self._tasks is None:
            message = "the console is not started"
            raise RuntimeError(message)
        watch = self._watches.get(queue)
        if watch is None:
            default = queue == self._reads.queue
            feed = Feed(self._reads.backend, queue, self._metrics)
            sampler = Sampler(
                self._reads,
                feed,
                always=default,
                seen=self._gauges.update if default else lambda _: None,
                every_seconds=self._sample_seconds,
            )
            self._tasks.create_task(feed.run(), name=f"console-feed-{queue}")
            self._tasks.create_task(sampler.run(), name=f"console-sampler-{queue}")
            watch = self._watches[queue] = Watch(feed, sampler)
        return watch

    def close_clients(self) -> None:
        """End the open streams; browsers reconnect when there is somebody again."""
        for watch in self._watches.values():
            watch.feed.close_clients()

    async def stop(self) -> None:
        """End everything that runs; returns when it has ended."""
        main, self._main, self._tasks = self._main, None, None
        if main is None:
            return
        self.close_clients()
        main.cancel()
        await asyncio.wait({main})
        self._watches.clear()
        if not main.cancelled() and (error := main.exception()) is not None:
            logger.error("the console's live part had broken", exc_info=error)

    async def _run(self, running: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            running.set()
            # The group stays open for feeds to come until `stop` cancels this task.
            await asyncio.Event().wait()
