"""The control loop over all queues: who needs a pass, when, and by which worker.

The adapter says what is to be (`apply`, `forget`) and what may have changed (`poke`); everything else
follows from the clock and from the backends' signals. It never takes an edge for a fact: each pass looks
at everything anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from runnerq.metrics import MetricsSink, NoopMetrics
from runnerq_operator.control.backends import BackendHub, Opener
from runnerq_operator.control.desired import DesiredQueue
from runnerq_operator.control.measurements import Measurements
from runnerq_operator.control.observation import Observation
from runnerq_operator.control.observe import tick_seconds
from runnerq_operator.control.queue_loop import PassResult, QueueLoop
from runnerq_operator.control.report import StatusSink
from runnerq_operator.control.waker import Waker
from runnerq_operator.control.work_queue import KeyedQueue
from runnerq_operator.fleet.port import Fleet, FleetError, PoolKey, QueueKey
from runnerq_operator.model.status import RunnerQueueStatus

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 0.05
"""Changes that come together make one pass."""
_FAILED_PASS_SECONDS = 1.0


class Controller:
    """Construct, `apply` what is known, then `run` until cancelled.

    `opener` makes a backend from an address; `observed` is shown what each pass found; `workers`
    passes run at the same time, of different queues. `clock` (monotonic seconds) and `wall` are for
    tests.
    """

    def __init__(
        self,
        *,
        fleet: Fleet,
        sink: StatusSink,
        opener: Opener,
        metrics: MetricsSink | None = None,
        observed: Callable[[Observation], None] = lambda observation: None,
        workers: int = 4,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._fleet = fleet
        self._sink = sink
        self._hub = BackendHub(opener, clock)
        self._measurements = Measurements(metrics or NoopMetrics())
        self._observed = observed
        self._workers = workers
        self._clock = clock
        self._wall = wall
        self._queue: KeyedQueue[QueueKey] = KeyedQueue()
        self._early: list[QueueKey] = []
        """Keys that were applied before `run`."""
        self._running = False
        self._desired: dict[QueueKey, DesiredQueue] = {}
        self._known: dict[QueueKey, RunnerQueueStatus] = {}
        self._urgent: set[QueueKey] = set()
        self._loops: dict[QueueKey, QueueLoop] = {}
        self._wakers: dict[QueueKey, Waker] = {}
        self._waking: dict[QueueKey, asyncio.Task[None]] = {}
        self.last_pass_at: float | None = None
        """Monotonic instant at which a pass last ended well; None before the first."""
        fleet.subscribe(self._fleet_changed)

    @property
    def queues(self) -> int:
        return len(self._desired)

    def apply(self, desired: DesiredQueue, *, known: RunnerQueueStatus | None = None) -> None:
        """This queue is to be so. `known`: the status it already shows, so that its conditions keep
        their times over a restart. Applying what is applied already does nothing."""
        if self._desired.get(desired.key) == desired:
            return
        self._desired[desired.key] = desired
        if known is not None:
            self._known.setdefault(desired.key, known)
        self.poke(desired.key)

    def forget(self, key: QueueKey) -> None:
        """This queue is no more. Its workers are left to whoever deleted it."""
        if self._desired.pop(key, None) is not None:
            self._known.pop(key, None)
            self._add(key)

    def poke(self, key: QueueKey, *, fresh: bool = False) -> None:
        """Look at this queue soon. `fresh`: its demand changed, so do not make do with the last read."""
        if key not in self._desired:
            return
        if fresh:
            self._urgent.add(key)
        self._add(key, after=0.0 if fresh else _SETTLE_SECONDS)

    async def run(self) -> None:
        """Until cancelled. Gives the backends back at the end; the workers stay as they are."""
        self._running = True
        for key in self._early:
            self._queue.add(key)
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(self._workers):
                    tasks.create_task(self._work(tasks), name=f"control-{number}")
        finally:
            self._running = False
            loops, self._loops = list(self._loops.values()), {}
            for loop in loops:
                await loop.close()
            await self._hub.close()

    def _add(self, key: QueueKey, *, after: float = 0.0) -> None:
        if self._running:
            self._queue.add(key, after=after)
        else:
            self._early.append(key)

    def _fleet_changed(self, pool: PoolKey) -> None:
        self.poke(pool.owner)

    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            async with self._queue.take() as key:
                desired = self._desired.get(key)
                if desired is None:
                    await self._dropped(key)
                else:
                    await self._pass(key, desired, tasks)

    async def _pass(self, key: QueueKey, desired: DesiredQueue, tasks: asyncio.TaskGroup) -> None:
        loop = self._loops.get(key)
        if loop is None:
            loop = self._loops[key] = QueueLoop(
                fleet=self._fleet,
                hub=self._hub,
                sink=self._sink,
                clock=self._clock,
                wall=self._wall,
            )
        fresh = key in self._urgent
        self._urgent.discard(key)
        started = time.monotonic()
        try:
            result = await loop.run_pass(desired, known=self._known.get(key), fresh=fresh)
        except FleetError as error:
            self._failed(key, str(error), started)
        except Exception:
            # A bug or an adapter's error in one queue must not end the loop of the others.
            logger.exception("%s: the pass failed", key)
            self._failed(key, "", started)
        else:
            self._measurements.passed(result, time.monotonic() - started)
            self._observed(result.observation)
            self.last_pass_at = self._clock()
            self._queue.succeeded(key)
            pause = min(result.next_in, _FAILED_PASS_SECONDS) if result.failed else result.next_in
            self._queue.add(key, after=pause)
            self._arm(key, desired, result, tasks)

    def _failed(self, key: QueueKey, message: str, started: float) -> None:
        self._measurements.failed(time.monotonic() - started)
        pause = self._queue.retry(key)
        if message:
            logger.warning("%s: %s; again in %.1f s", key, message, pause)

    def _arm(
        self, key: QueueKey, desired: DesiredQueue, result: PassResult, tasks: asyncio.TaskGroup
    ) -> None:
        waker = self._wakers.get(key)
        if waker is None:
            waker = self._wakers[key] = Waker(lambda: self.poke(key, fresh=True))
            self._waking[key] = tasks.create_task(waker.run(), name=f"waker-{key}")
        waker.arm(result.signal, result.seen, longest_gap=tick_seconds(desired))

    async def _dropped(self, key: QueueKey) -> None:
        self._queue.forget(key)
        self._wakers.pop(key, None)
        waking = self._waking.pop(key, None)
        if waking is not None:
            waking.cancel()
        loop = self._loops.pop(key, None)
        if loop is not None:
            await loop.close()
