"""WorkerEngine: builds the services of one engine process, starts and stops them in order.

    new --start--> running --stop--> stopped
     '----stop----------------------> stopped

Stopping: no more claims; what no handler has begun is handed back; handlers may finish within the
grace, are then interrupted and their claims handed back with the attempt not counted; outcomes are
flushed; end callbacks may finish; the engine is retired, so whatever it still held is free at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from contextlib import AsyncExitStack
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from runnerq.engine.account import Account
from runnerq.engine.attempt import Attempt, Cause
from runnerq.engine.claim import Claimer
from runnerq.engine.complete import Completer
from runnerq.engine.config import EngineConfig
from runnerq.engine.endings import Endings
from runnerq.engine.gate import Closed, Gate
from runnerq.engine.heartbeat import HeartbeatThread
from runnerq.engine.leases import Leases, SilenceWatch
from runnerq.engine.processes import ProcessSlots, importable_name
from runnerq.engine.reap import Reaper
from runnerq.engine.run import Runner
from runnerq.engine.service import Service
from runnerq.engine.slots import Slots
from runnerq.engine.stop_signals import StopSignals
from runnerq.engine.threads import ThreadSlots
from runnerq.engine.tick import LoopWatch, SchedulePromoter
from runnerq.engine.timers import Timers
from runnerq.errors import CapabilityMissing, ConfigurationError, StorageError
from runnerq.executor import ActivityExecutor
from runnerq.ids import instant_of
from runnerq.inspector import QueueInspector
from runnerq.metrics import guarded
from runnerq.patterns import resolve
from runnerq.registry import ActivityHandlerRegistry
from runnerq.storage.records import (
    AckStatus,
    Claim,
    EngineInfo,
    EngineState,
    OutcomeKind,
    Priority,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from runnerq.activity import ActivityDefinition
    from runnerq.engine.worker_engine_builder import WorkerEngineBuilder
    from runnerq.metrics import MetricsSink
    from runnerq.storage.ports import Storage
    from runnerq.storage.records import Acknowledged, Acknowledgement, Reaped, TypeCounters

log = logging.getLogger(__name__)

LAST_FLUSH = 10.0
"""Seconds `stop` waits for the backend to take the last outcomes, beyond the grace."""


LAST_CALLBACKS = 2.0
"""Seconds end callbacks get beyond the grace."""


class Phase(StrEnum):
    NEW = "new"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class WorkerEngine:
    """Runs the activities of one queue in this process.

        engine = WorkerEngine(backend, activities=[send_email], activity_types=["send_*"])
        await engine.run_until_signal()

    `max_workers` is how many handlers run at once. Further settings: `EngineConfig`.
    """

    def __init__(
        self,
        backend: Storage,
        *,
        activities: Iterable[ActivityDefinition[Any, Any]] = (),
        queue_name: str | None = None,
        activity_types: Sequence[str] | None = None,
        metrics: MetricsSink | None = None,
        **settings: Any,
    ) -> None:
        self.backend = backend
        self.config = EngineConfig(
            queue_name=queue_name if queue_name is not None else backend.default_queue,
            activity_types=None if activity_types is None else tuple(activity_types),
            **settings,
        )
        self.registry = ActivityHandlerRegistry(activities)
        self.engine_id: UUID = uuid4()
        self.phase = Phase.NEW
        self.types: tuple[str, ...] = ()
        self._metrics = guarded(metrics)
        self._executor = ActivityExecutor(backend, self.config.queue_name, metrics=self._metrics)
        self._turn = asyncio.Lock()
        self._stop_requested = asyncio.Event()
        self._account = Account(self.config.queue_name, self._metrics)
        self._gate = Gate()
        self._timers = Timers()
        self._threads = ThreadSlots(self.config.thread_limit)
        self._processes = ProcessSlots(self.config.cpu_process_limit)
        self._draining: asyncio.Task[None] | None = None

    @classmethod
    def builder(cls) -> WorkerEngineBuilder:
        from runnerq.engine.worker_engine_builder import WorkerEngineBuilder

        return WorkerEngineBuilder()

    def register_activity(self, activity_type: str, handler: object) -> None:
        """Add a handler before `start`: an activity, an ActivityHandler object, or a function."""
        if self.phase is not Phase.NEW:
            raise ConfigurationError("handlers are registered before start", field="activities")
        self.registry.register(activity_type, handler)

    def get_activity_executor(self) -> ActivityExecutor:
        return self._executor

    def inspector(self) -> QueueInspector:
        return QueueInspector(self.backend, self.config.queue_name)

    @property
    def busy(self) -> int:
        """Claims held: running or about to."""
        return self._slots.busy if self.phase in (Phase.RUNNING, Phase.STOPPING) else 0

    @property
    def healthy(self) -> bool:
        """Running, and the backend answered a heartbeat within the liveness time."""
        return (
            self.phase is Phase.RUNNING
            and self._heartbeat.silent_for < self.config.liveness_timeout
        )

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(
            engine_id=self.engine_id,
            host=socket.gethostname(),
            pid=os.getpid(),
            slots=self.config.max_workers,
            types=self.types,
            pool=self.config.pool,
            pod=self.config.pod,
            build_id=self.config.build_id,
            version=_version(),
        )

    async def start(self) -> None:
        """Verify, register, begin to claim. Harmless when running; an error after `stop`.

        Raises ConfigurationError for types without handlers, CapabilityMissing, SchemaMismatch,
        BackendUnavailable.
        """
        async with self._turn:
            if self.phase is Phase.RUNNING:
                return
            if self.phase is not Phase.NEW or self._stop_requested.is_set():
                raise ConfigurationError("this engine was stopped; make a new one", field="start")
            self.types = resolve(self.config.activity_types, self.registry.types)
            self._verify()
            await self.backend.open()
            self._compose()
            await self._register()
            self._account.opened(self.types, self.info.version)
            self.phase = Phase.RUNNING
            self._heartbeat.start()
            self._slots.start()
            self._completer.start()
            for service in self._services:
                service.start()
            log.info(
                "engine %s runs %s of queue %s in %d slots",
                self.info.worker_id,
                ", ".join(self.types),
                self.config.queue_name,
                self.config.max_workers,
            )

    async def stop(self, *, grace: float | None = None) -> None:
        """Stop as described above. `grace`: seconds for running handlers; default `drain_timeout`.
        May be called at any time, also twice or before `start`. When the caller is cancelled, the
        engine goes on stopping; call again to wait for it."""
        self._stop_requested.set()
        async with self._turn:
            if self.phase is Phase.NEW:
                self.phase = Phase.STOPPED
            elif self.phase is Phase.RUNNING:
                self.phase = Phase.STOPPING
                self._draining = asyncio.create_task(
                    self._drain(self.config.drain_timeout if grace is None else grace),
                    name="runnerq-drain",
                )
        if self._draining is not None:
            await asyncio.shield(self._draining)

    async def flushed(self) -> None:
        """Until the outcomes of all attempts that have ended so far are stored."""
        if self.phase is Phase.RUNNING:
            await self._completer.flush()

    def request_stop(self) -> None:
        """Make `run_until_signal` return; safe from a signal handler."""
        self._stop_requested.set()

    async def run_until_signal(self) -> None:
        """Start, run until SIGTERM, SIGINT or `request_stop`, then stop. Restores the handlers."""
        with StopSignals(self.request_stop):
            try:
                if not self._stop_requested.is_set():
                    await self.start()
                    await self._stop_requested.wait()
            finally:
                await self.stop()

    def _verify(self) -> None:
        capabilities = self.backend.capabilities
        narrowed = set(self.types) != set(self.registry.types)
        if narrowed and not capabilities.type_filter:
            raise CapabilityMissing(
                capabilities.name,
                "type_filter",
                "it cannot claim only some types; run one engine with all handlers",
            )
        if not self.types:
            raise ConfigurationError("there is no handler to run", field="activities")
        for name in self.types:
            definition = self.registry.get(name)
            if definition is None:
                continue
            if definition.cpu:
                importable_name(definition)
            if definition.options.priority is not Priority.NORMAL and not capabilities.priorities:
                raise CapabilityMissing(capabilities.name, "priorities", f"{name!r} asks for one")

    def _compose(self) -> None:
        config, backend = self.config, self.backend
        runner = Runner(
            registry=self.registry,
            executor=self._executor,
            keeper=self,
            timers=self._timers,
            threads=self._threads,
            processes=self._processes,
            # One of the loops stands for all: the event loop cancels them in one sweep.
            abandoned=lambda: self._leases.abandoned,
        )
        self._slots = Slots(config.max_workers, runner, self._attempt_ended)
        self._completer = Completer(
            storage=backend,
            queue=config.queue_name,
            gate=self._gate,
            metrics=self._metrics,
            busy=lambda: self._slots.busy,
            on_stored=self._outcomes_stored,
        )
        self._leases = Leases(
            storage=backend,
            config=config,
            slots=self._slots,
            gate=self._gate,
            account=self._account,
            register=self._register,
        )
        self._endings = Endings(
            registry=self.registry,
            executor=self._executor,
            keeper=self,
            threads=self._threads,
            gate=self._gate,
        )
        self._claimers = [
            Claimer(
                storage=backend,
                config=config,
                engine_id=self.engine_id,
                types=self.types,
                slots=self._slots,
                gate=self._gate,
                metrics=self._metrics,
                on_claimed=self._account.claimed,
            )
        ]
        self._heartbeat = HeartbeatThread(
            storage=backend,
            config=config,
            engine_id=self.engine_id,
            listener=self._leases,
            status=self._status,
        )
        self._services: list[Service] = [
            *self._claimers,
            self._leases,
            SilenceWatch(
                leases=self._leases,
                silent_for=lambda: self._heartbeat.silent_for,
                liveness_timeout=config.liveness_timeout,
            ),
            Reaper(storage=backend, config=config, on_reaped=self._work_reaped),
            LoopWatch(metrics=self._metrics, gauges=self._set_gauges),
        ]
        if not backend.capabilities.native_schedule:
            self._services.append(SchedulePromoter(storage=backend, config=config))

    async def extend(self, claim: Claim, by: Any) -> None:
        """LeaseKeeper of the contexts."""
        await self._leases.extend(claim, by)

    async def _drain(self, grace: float) -> None:
        async with AsyncExitStack() as ending:
            # Each of these happens whatever the others raise; the last one first.
            ending.callback(self._ended)
            ending.push_async_callback(self._retire)
            ending.push_async_callback(self._processes.close)
            ending.callback(self._threads.close)
            ending.callback(self._timers.close)
            ending.push_async_callback(self._heartbeat.stop)
            ending.push_async_callback(self._slots.close)
            ending.push_async_callback(self._completer.stop)
            for service in self._services:
                ending.push_async_callback(service.stop)
            await self._finish(time.monotonic() + grace)

    async def _finish(self, deadline: float) -> None:
        """Claim no more, let handlers end until the deadline, store how they ended."""
        self._gate.set(Closed.STOPPING, closed=True)
        self._slots.begin_no_more()
        self._heartbeat.beat_now()
        for claimer in self._claimers:
            await claimer.stop()
            if not await _within(LAST_FLUSH, claimer.settled()):
                log.warning(
                    "a claim is still under way; what it brings is free once we are retired"
                )
        self._hand_back(self._slots.take_back())
        if not await _within(_left(deadline), self._slots.wait_quiet()):
            log.warning("%d handlers are interrupted after the grace", self._slots.busy)
            await self._interrupt_all()
        if not await _within(_left(deadline) + LAST_FLUSH, self._completer.flush()):
            log.error(
                "%d outcomes could not be stored; their activities will run again",
                self._completer.unstored,
            )
        if not await _within(_left(deadline) + LAST_CALLBACKS, self._endings.wait()):
            await self._endings.cancel()

    async def _retire(self) -> None:
        try:
            await self.backend.retire_engine(self.config.queue_name, self.engine_id)
        except StorageError as error:
            log.warning("the engine could not be retired, its heartbeat will run out: %s", error)

    def _ended(self) -> None:
        self.phase = Phase.STOPPED
        if self._threads.abandoned:
            log.warning("%d sync handlers still run in abandoned threads", self._threads.abandoned)

    async def _interrupt_all(self) -> None:
        """Cancel what still runs, and again if a handler swallows it; hand back what never yields."""
        for _ in range(4):
            self._slots.interrupt(Cause.SHUTDOWN)
            if await _within(1.0, self._slots.wait_quiet()):
                return
        stuck = self._slots.held
        log.error("%d handlers ignore their cancellation; their claims are handed back", len(stuck))
        self._hand_back(stuck)

    def _hand_back(self, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            self._attempt_ended(attempt, attempt.ended(OutcomeKind.RELEASED))

    def _attempt_ended(self, attempt: Attempt, outcome: Acknowledgement | None) -> None:
        if outcome is None:
            return
        if outcome.kind is OutcomeKind.RELEASED and self.phase is Phase.STOPPING:
            self._account.handed_back(1)
        self._completer.add(attempt, outcome)

    def _outcomes_stored(self, ended: list[tuple[Attempt, Acknowledgement, Acknowledged]]) -> None:
        self._account.stored(ended)
        for attempt, acknowledgement, answer in ended:
            match answer.status:
                case AckStatus.ACCEPTED:
                    if acknowledgement.error is not None:
                        self._endings.ended(attempt.claim, answer.state, acknowledgement.error)
                case AckStatus.CLAIM_LOST:
                    self._account.lost(1, "late_outcome")
                    log.warning("the outcome of %s came too late: its claim was lost", answer.id)
                case AckStatus.CONFLICT:
                    log.error("activity %s was acknowledged twice, differently", answer.id)

    def _work_reaped(self, reaped: list[Reaped]) -> None:
        self._account.reaped(reaped)
        for item in reaped:
            self._endings.ended(_claim_of(item, self.config.queue_name), item.state, item.error)

    async def _register(self) -> None:
        await self.backend.register_engine(self.config.queue_name, self.info)

    def _status(self) -> tuple[EngineState, int, Mapping[str, TypeCounters]]:
        state = EngineState.RUNNING if self.phase is Phase.RUNNING else EngineState.DRAINING
        return state, self._slots.busy, self._account.counters()

    def _set_gauges(self) -> None:
        labels = {"queue": self.config.queue_name}
        self._metrics.set_gauge("runnerq_worker_slots", self.config.max_workers, labels)
        self._metrics.set_gauge("runnerq_activities_in_flight", self._slots.busy, labels)
        draining = self.phase is not Phase.RUNNING or Closed.CORDONED in self._gate.reasons
        self._metrics.set_gauge("runnerq_worker_draining", draining)
        self._metrics.set_gauge(
            "runnerq_worker_last_heartbeat_timestamp_seconds",
            time.time() - self._heartbeat.silent_for,
        )


def _claim_of(item: Reaped, queue: str) -> Claim:
    """The claim a reaped activity's callback sees: nobody's token, and no time but its creation."""
    created = instant_of(item.id)
    return Claim(
        id=item.id,
        token=UUID(int=0),
        queue=queue,
        type=item.type,
        payload=item.payload,
        codec=item.codec,
        priority=Priority.NORMAL,
        attempt=item.attempt,
        max_attempts=item.attempt,
        timeout_ms=0,
        created_at=created,
        ready_at=created,
        claimed_at=created,
        deadline=created,
    )


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


async def _within(seconds: float, wait: Awaitable[None]) -> bool:
    """Whether what is waited for came in time."""
    try:
        async with asyncio.timeout(seconds):
            await wait
    except TimeoutError:
        return False
    return True


def _version() -> str:
    try:
        return version("runnerq")
    except PackageNotFoundError:
        return "unpackaged"
