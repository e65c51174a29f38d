"""A fleet whose workers live in virtual time, and a stage on which the control loop meets them.

The workers really claim from a memory backend and acknowledge; only their work is a sleep. What the
fleet did to them is kept: who was stopped while busy, how many there ever were.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from tests.unit.control_views import desired_queue

from runnerq.ids import IdSource
from runnerq.patterns import resolve
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.records import (
    Acknowledgement,
    ActivitySpec,
    ActivityState,
    Claim,
    ClaimRequest,
    EngineInfo,
    EngineState,
    Heartbeat,
    OutcomeKind,
    TypeCounters,
)
from runnerq.testing import FaultyBackend
from runnerq_operator.control.controller import Controller
from runnerq_operator.control.desired import DesiredQueue
from runnerq_operator.control.leader_metrics import LeaderMetrics
from runnerq_operator.control.report import QueueReport
from runnerq_operator.fleet.port import (
    FleetState,
    FleetUnavailable,
    PodPhase,
    PodState,
    PoolKey,
    QueueKey,
    ReplicasConflict,
    TemplateRefused,
    WorkerTemplate,
)
from runnerq_operator.model.status import Condition

START = datetime(2025, 6, 1, 12, tzinfo=UTC)


class LoopClock:
    """The running loop's time, as a wall clock."""

    def now_ms(self) -> int:
        return int((START.timestamp() + asyncio.get_running_loop().time()) * 1000)

    def now(self) -> datetime:
        return START + timedelta(seconds=asyncio.get_running_loop().time())


@dataclass
class SimulatedWorker:
    """One pod: starts, registers, claims, sleeps for each claim, acknowledges."""

    name: str
    pool: PoolKey
    template: WorkerTemplate
    created_at: datetime
    since: datetime
    phase: PodPhase = PodPhase.STARTING
    engine_id: UUID = field(default_factory=uuid4)
    running: dict[UUID, Claim] = field(default_factory=dict[UUID, Claim])
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    finished: int = 0
    run_ms: int = 0


@dataclass
class _Pool:
    template: WorkerTemplate
    replicas: int = 0
    version: int = 1
    requested: int | None = None
    preferred: frozenset[str] = frozenset()
    rolling: bool = False
    workers: dict[str, SimulatedWorker] = field(default_factory=dict[str, SimulatedWorker])


class SimulatedFleet:
    """Implements `Fleet`. `startup` and the seconds that each type runs are virtual."""

    def __init__(
        self,
        storage: MemoryBackend,
        tasks: asyncio.TaskGroup,
        *,
        handled: Sequence[str],
        startup: float = 2.0,
        seconds: Callable[[Claim], float] | None = None,
        heartbeat: float = 5.0,
    ) -> None:
        self._storage = storage
        self._tasks = tasks
        self._handled = tuple(handled)
        self._startup = startup
        self._seconds = seconds or _one_second
        self._heartbeat = heartbeat
        self._clock = LoopClock()
        self._listeners: list[Callable[[PoolKey], None]] = []
        self._numbers = itertools.count()
        self.by_key: dict[PoolKey, _Pool] = {}
        self.refusals: dict[str, str] = {}
        """Pool name -> why its template is refused."""
        self.unavailable = False
        self.unschedulable_above: int | None = None
        """Workers beyond this many find no place."""
        self.stopped_busy: list[str] = []
        self.made = 0
        self.calls: list[tuple[str, int]] = []
        """Every (pool, replicas) that was set."""

    def subscribe(self, listener: Callable[[PoolKey], None]) -> None:
        self._listeners.append(listener)

    async def ensure(self, pool: PoolKey, template: WorkerTemplate) -> None:
        self._answer()
        if pool.pool in self.refusals:
            raise TemplateRefused(self.refusals[pool.pool])
        known = self.by_key.setdefault(pool, _Pool(template))
        known.template = template

    async def observe(self, pool: PoolKey) -> FleetState | None:
        self._answer()
        known = self.by_key.get(pool)
        if known is None:
            return None
        return FleetState(
            pool=pool,
            replicas=known.replicas,
            version=str(known.version),
            requested_replicas=known.requested,
            rolling=known.rolling,
            image="simulated",
            pods=tuple(
                PodState(
                    name=worker.name,
                    phase=worker.phase,
                    created_at=worker.created_at,
                    since=worker.since,
                )
                for worker in known.workers.values()
            ),
        )

    async def set_replicas(self, pool: PoolKey, replicas: int, *, version: str) -> None:
        self._answer()
        known = self.by_key[pool]
        if version != str(known.version):
            raise ReplicasConflict(f"{pool} is at version {known.version}")
        self.calls.append((pool.pool, replicas))
        known.version += 1
        known.replicas = replicas
        self._fill(pool, known)

    async def prefer_victims(self, pool: PoolKey, pods: Sequence[str]) -> None:
        self._answer()
        self.by_key[pool].preferred = frozenset(pods)

    async def pools(self, queue: QueueKey) -> tuple[PoolKey, ...]:
        self._answer()
        return tuple(sorted(key for key in self.by_key if key.owner == queue))

    async def remove(self, pool: PoolKey) -> None:
        self._answer()
        self.by_key.pop(pool, None)

    def workers(self, pool: str = "mail") -> list[SimulatedWorker]:
        return [
            worker
            for key, known in self.by_key.items()
            if key.pool == pool
            for worker in known.workers.values()
            if worker.phase is not PodPhase.DRAINING
        ]

    def ready(self, pool: str = "mail") -> int:
        return sum(worker.phase is PodPhase.READY for worker in self.workers(pool))

    def request(self, replicas: int, pool: str = "mail") -> None:
        """As `kubectl scale` does."""
        for key, known in self.by_key.items():
            if key.pool == pool:
                known.requested = replicas
                self._tell(key)

    def _answer(self) -> None:
        if self.unavailable:
            raise FleetUnavailable("a fault of the test: the fleet is not there")

    def _tell(self, pool: PoolKey) -> None:
        for listener in self._listeners:
            listener(pool)

    def _fill(self, key: PoolKey, pool: _Pool) -> None:
        there = [one for one in pool.workers.values() if one.phase is not PodPhase.DRAINING]
        for _ in range(pool.replicas - len(there)):
            name = f"{key.object_name}-{next(self._numbers)}"
            now = self._clock.now()
            worker = SimulatedWorker(name, key, pool.template, now, now)
            pool.workers[name] = worker
            self.made += 1
            self._tasks.create_task(self._live(worker, pool))
        there.sort(key=lambda one: (one.name not in pool.preferred, one.phase is PodPhase.READY))
        for worker in there[: max(0, len(there) - pool.replicas)]:
            if worker.running:
                self.stopped_busy.append(worker.name)
            self._enter(worker, PodPhase.DRAINING)
            worker.stopping.set()

    def _enter(self, worker: SimulatedWorker, phase: PodPhase) -> None:
        worker.phase, worker.since = phase, self._clock.now()
        self._tell(worker.pool)

    async def _live(self, worker: SimulatedWorker, pool: _Pool) -> None:
        if self.unschedulable_above is not None and len(pool.workers) > self.unschedulable_above:
            self._enter(worker, PodPhase.UNSCHEDULABLE)
            await worker.stopping.wait()
        else:
            await _either(asyncio.sleep(self._startup), worker.stopping.wait())
        if not worker.stopping.is_set():
            await self._serve(worker)
        pool.workers.pop(worker.name, None)
        self._tell(worker.pool)

    async def _serve(self, worker: SimulatedWorker) -> None:
        queue, template = worker.template.queue_name, worker.template
        types = resolve(template.activity_types, self._handled)
        await self._storage.register_engine(
            queue,
            EngineInfo(
                engine_id=worker.engine_id,
                host="simulated",
                pid=1,
                slots=template.concurrency,
                types=types,
                pool=worker.pool.pool,
                pod=worker.name,
            ),
        )
        self._enter(worker, PodPhase.READY)
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(self._beat(worker))
            signal = self._storage.work_signal(queue)
            while not worker.stopping.is_set():
                seen = signal.version()
                claims = await self._storage.claim(
                    ClaimRequest(
                        queue=queue,
                        engine_id=worker.engine_id,
                        types=types,
                        limit=template.concurrency - len(worker.running),
                    )
                )
                for claim in claims:
                    worker.running[claim.id] = claim
                    tasks.create_task(self._run(worker, claim))
                await _either(signal.wait(seen, 1.0), worker.stopping.wait())
            beating.cancel()
        await self._storage.retire_engine(queue, worker.engine_id)

    async def _run(self, worker: SimulatedWorker, claim: Claim) -> None:
        seconds = self._seconds(claim)
        await _either(asyncio.sleep(seconds), worker.stopping.wait())
        kind = OutcomeKind.RELEASED if worker.stopping.is_set() else OutcomeKind.COMPLETED
        await self._storage.acknowledge(
            claim.queue,
            [
                Acknowledgement(
                    id=claim.id,
                    token=claim.token,
                    kind=kind,
                    result=b"null" if kind is OutcomeKind.COMPLETED else None,
                )
            ],
        )
        del worker.running[claim.id]
        worker.finished += 1
        worker.run_ms += int(seconds * 1000)

    async def _beat(self, worker: SimulatedWorker) -> None:
        while True:
            count = TypeCounters(worker.finished, worker.finished, worker.run_ms)
            await self._storage.heartbeat(
                worker.template.queue_name,
                Heartbeat(
                    engine_id=worker.engine_id,
                    state=EngineState.RUNNING,
                    busy=len(worker.running),
                    counters=dict.fromkeys(self._handled[:1], count),
                ),
            )
            await asyncio.sleep(self._heartbeat)


def _one_second(_claim: Claim) -> float:
    return 1.0


async def _either(*waits: Any) -> None:
    """Wait for the first of them and leave the others."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class RecordingSink:
    """Keeps every report; fails while told to."""

    def __init__(self) -> None:
        self.reports: list[QueueReport] = []
        self.failing = False

    async def publish(self, report: QueueReport) -> None:
        if self.failing:
            raise ConnectionError("a fault of the test: the sink is not there")
        self.reports.append(report)

    @property
    def events(self) -> list[str]:
        return [event.reason for report in self.reports for event in report.events]

    def says(self, name: str, status: str) -> bool:
        """Whether the newest report has this condition so."""
        newest = self.reports[-1].status.conditions if self.reports else ()
        return any(one.type == name and one.status == status for one in newest)

    @property
    def passed(self) -> bool:
        """Whether a pass has ended."""
        return bool(self.reports and self.reports[-1].pools)

    def condition(self, name: str, pool: str = "") -> Condition:
        report = self.reports[-1]
        status = report.pools[pool] if pool else report.status
        return next(one for one in status.conditions if one.type == name)


@dataclass
class Stage:
    """The control loop on a simulated fleet, with the queue `shop` and its pool `mail`."""

    backend: FaultyBackend
    fleet: SimulatedFleet
    sink: RecordingSink
    controller: Controller
    opened: list[str]
    ids: IdSource = field(default_factory=IdSource)

    def apply(self, desired: DesiredQueue) -> None:
        self.controller.apply(desired)

    async def enqueue(self, count: int, activity_type: str = "send_mail", **spec: Any) -> None:
        specs = [
            ActivitySpec(id=self.ids.next(), type=activity_type, payload=b"{}", **spec)
            for _ in range(count)
        ]
        await self.backend.enqueue("shop", specs)

    async def count(self, state: ActivityState) -> int:
        return (await self.backend.stats("shop")).counts.get(state, 0)


async def until(condition: Callable[[], Any], *, within: float) -> float:
    """Wait in virtual time; how long it took. Fails after `within` virtual seconds."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while not condition():
        if loop.time() - started > within:
            raise AssertionError(f"not within {within:g} virtual seconds")
        await asyncio.sleep(0.02)
    return loop.time() - started


@asynccontextmanager
async def stage(
    *queues: DesiredQueue,
    handled: Sequence[str] = ("send_mail",),
    metrics: LeaderMetrics | None = None,
    **fleet: Any,
) -> AsyncGenerator[Stage]:
    """A running control loop; ends, and lets the workers go, with the block."""
    metrics = metrics or LeaderMetrics(lambda _: True)
    clock = LoopClock()
    loop = asyncio.get_running_loop()
    memory = MemoryBackend("shop", clock=clock)
    backend = FaultyBackend(memory)
    opened: list[str] = []

    def opener(address: Any) -> FaultyBackend:
        opened.append(address.url)
        return backend

    async with asyncio.TaskGroup() as workers:
        simulated = SimulatedFleet(memory, workers, handled=handled, **fleet)
        sink = RecordingSink()
        controller = Controller(
            fleet=simulated,
            sink=sink,
            opener=opener,
            metrics=metrics,
            observed=metrics.observed,
            clock=loop.time,
            wall=clock.now,
        )
        for queue in queues or (desired_queue(),):
            controller.apply(queue)
        running = workers.create_task(controller.run())
        try:
            yield Stage(backend, simulated, sink, controller, opened)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            for pool in simulated.by_key.values():
                for worker in pool.workers.values():
                    worker.stopping.set()
