"""One queue's passes: look, plan, execute, report. Keeps what has to be remembered in between.

Level-triggered: a pass needs nothing but the spec and what it sees. Passes of one queue never overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec

from runnerq.errors import ConfigurationError
from runnerq.storage.ports import WorkSignal
from runnerq_operator.control.backends import BackendHub, BackendLink
from runnerq_operator.control.desired import BackendAddress, BackendProblem, DesiredQueue
from runnerq_operator.control.events import EventMemory, events
from runnerq_operator.control.execute import execute
from runnerq_operator.control.observation import Observation
from runnerq_operator.control.observe import LookMemory, backend_kind, look, tick_seconds
from runnerq_operator.control.plan import Plan, PlanMemory, plan, target_of, undone
from runnerq_operator.control.publish import Publisher
from runnerq_operator.control.report import QueueEvent, QueueReport, StatusSink
from runnerq_operator.control.status import initial_status, pool_status, queue_status
from runnerq_operator.fleet.port import Fleet
from runnerq_operator.model.status import RunnerQueueStatus, RunnerWorkerPoolStatus

_SOON_SECONDS = 0.5


class PassResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the pass leaves to the controller."""

    next_in: float
    """Seconds until the next pass, if nothing happens before."""
    failed: bool
    """Some action did not succeed; try again soon."""
    observation: Observation
    events: tuple[QueueEvent, ...] = ()
    signal: WorkSignal | None = None
    """To wait on while a pool is at zero; None when none is."""
    seen: int = 0
    """Version of the signal from before the demand was read."""


class QueueLoop:
    def __init__(
        self,
        *,
        fleet: Fleet,
        hub: BackendHub,
        sink: StatusSink,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
    ) -> None:
        self._fleet = fleet
        self._hub = hub
        self._clock = clock
        self._wall = wall
        self._publisher = Publisher(sink, clock)
        self._joined: tuple[BackendAddress, str] | None = None
        self._link: BackendLink | None = None
        self._look = LookMemory()
        self._plan = PlanMemory()
        self._events = EventMemory()
        self._status: RunnerQueueStatus | None = None
        self._pools: dict[str, RunnerWorkerPoolStatus] = {}

    async def run_pass(
        self, desired: DesiredQueue, *, known: RunnerQueueStatus | None, fresh: bool
    ) -> PassResult:
        """One pass. `known`: the status that is already shown, from before a restart. `fresh`: the
        demand has to be read now, because something said that there is work."""
        desired = await self._connected(desired)
        if self._status is None:
            self._status = known
            if known is None:
                await self._introduce(desired)
        seen = self._signal(desired)
        tick = tick_seconds(desired)
        self._look, observation = await look(
            desired,
            self._look,
            fleet=self._fleet,
            link=self._link,
            max_age=0.0 if fresh else tick / 2,
            now=self._clock(),
            at=self._wall(),
        )
        made = plan(observation, self._plan)
        link = self._link
        failures = await execute(
            made.actions, fleet=self._fleet, storage=link.storage if link else None
        )
        self._plan = undone(self._plan, made.memory, (failure.action for failure in failures))
        told = await self._report(observation, made)
        signal = self._waiting_on(observation, seen)
        # The backend was opened by this very pass: look again at once, with its signal at hand.
        opened = seen is None and observation.backend_ready
        return PassResult(
            next_in=min(tick, _SOON_SECONDS) if made.draining or opened else tick,
            failed=bool(failures),
            observation=observation,
            events=told,
            signal=signal,
            seen=seen[1] if seen else 0,
        )

    async def close(self) -> None:
        """Give the backend back. The workers stay as they are."""
        joined, self._joined, self._link = self._joined, None, None
        if joined is not None:
            await self._hub.leave(*joined)

    async def _connected(self, desired: DesiredQueue) -> DesiredQueue:
        """Join the backend that the spec names now; with a bad address the problem takes its place."""
        address = desired.backend
        if isinstance(address, BackendProblem):
            return desired
        wanted = (address, desired.backend_queue)
        if self._joined != wanted:
            await self.close()
            try:
                self._link = self._hub.join(*wanted)
            except ConfigurationError as error:
                problem = BackendProblem(reason="UrlInvalid", message=str(error))
                return msgspec.structs.replace(desired, backend=problem)
            self._joined = wanted
        return desired

    async def _introduce(self, desired: DesiredQueue) -> None:
        """Everything unknown: shown before the first look, which may take its time."""
        self._status = initial_status(
            desired.generation, backend_kind(desired), len(desired.spec.pools), self._wall()
        )
        await self._publisher.publish(
            QueueReport(queue=desired.key, status=self._status, backend_queue=desired.backend_queue)
        )

    def _signal(self, desired: DesiredQueue) -> tuple[WorkSignal, int] | None:
        """The queue's signal, with its version from before the read that follows."""
        if self._link is None or not self._link.ready:
            return None
        signal = self._link.storage.work_signal(desired.backend_queue)
        return signal, signal.version()

    def _waiting_on(
        self, observation: Observation, seen: tuple[WorkSignal, int] | None
    ) -> WorkSignal | None:
        asleep = any(
            pool.entry is not None and target_of(pool, observation.decisions) == 0
            for pool in observation.pools
        )
        return seen[0] if seen is not None and asleep else None

    async def _report(self, observation: Observation, made: Plan) -> tuple[QueueEvent, ...]:
        self._events, told = events(observation, self._events, made.mismatched)
        self._status = queue_status(observation, self._status)
        self._pools = {
            pool.key.pool: pool_status(observation, pool, self._pools.get(pool.key.pool))
            for pool in observation.pools
            if pool.entry is not None
        }
        await self._publisher.publish(
            QueueReport(
                queue=observation.desired.key,
                status=self._status,
                pools=self._pools,
                events=told,
                backend_queue=observation.desired.backend_queue,
            )
        )
        return told
