"""One look at a queue: templates ensured, demand read, workers observed, decisions made.

The I/O of a pass that comes before the plan. What could not be read is in the observation as such; only
a fleet that does not answer ends the pass, because then there is nothing to plan on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from runnerq_operator.autoscale.decide import Decision, decide
from runnerq_operator.autoscale.inputs import Connections, PoolInputs, QueueInputs
from runnerq_operator.autoscale.measure import startup_seconds
from runnerq_operator.autoscale.memory import QueueMemory
from runnerq_operator.control.backends import BackendLink, DemandRead
from runnerq_operator.control.desired import BackendProblem, DesiredQueue
from runnerq_operator.control.observation import Observation, PoolObservation
from runnerq_operator.control.reading import engines_of, reading_of, uncovered_types
from runnerq_operator.fleet.port import Fleet, PodPhase, TemplateRefused
from runnerq_operator.model.queue import PausedMode

WORKER_CONNECTIONS = 4
"""Connections that one worker process holds on Postgres at most, all purposes together: the default of
`runnerq worker --max-connections`."""


class LookMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What one look leaves for the next."""

    autoscaling: QueueMemory = QueueMemory()
    decisions: Mapping[str, Decision] = {}
    decided_on: tuple[int, DesiredQueue] | None = None
    """Number of the read and spec that the decisions were made on."""
    starting: Mapping[str, tuple[str, ...]] = {}
    """By pool: pods that were starting at the last look."""


async def look(
    desired: DesiredQueue,
    memory: LookMemory,
    *,
    fleet: Fleet,
    link: BackendLink | None,
    max_age: float,
    now: float,
    at: datetime,
) -> tuple[LookMemory, Observation]:
    """Observe the queue. Demand up to `max_age` seconds old will do. Raises FleetUnavailable."""
    refused = await _ensured(desired, fleet)
    read = await _read(desired, link, max_age)
    pools = await _pools(desired, fleet, refused, read)
    ready = link is not None and link.ready
    if ready and memory.decided_on != (read.number, desired):
        memory = _decided(desired, memory, pools, read, now)
    memory = msgspec.structs.replace(memory, starting=_starting(pools))
    if link is not None:
        link.look_ahead(desired.backend_queue, _horizon(desired, memory.autoscaling))
    observation = Observation(
        desired=desired,
        now=now,
        at=at,
        read=read,
        backend_ready=ready,
        backend_kind=backend_kind(desired),
        pools=pools,
        decisions=dict(memory.decisions) if ready else {},
        uncovered=_uncovered(desired, read, memory.decisions),
    )
    return memory, observation


def backend_kind(desired: DesiredQueue) -> str:
    return "Redis" if desired.spec.backend.redis is not None else "Postgres"


async def _ensured(desired: DesiredQueue, fleet: Fleet) -> dict[str, str]:
    """Make or update every pool of the spec; why which template was refused."""
    refused: dict[str, str] = {}
    if isinstance(desired.backend, BackendProblem):
        # Without the backend's address a template would be made that is not the one meant.
        return refused
    for entry in desired.spec.pools:
        try:
            await fleet.ensure(desired.pool_key(entry), desired.worker_template(entry))
        except TemplateRefused as error:
            refused[entry.name] = str(error)
    return refused


async def _read(desired: DesiredQueue, link: BackendLink | None, max_age: float) -> DemandRead:
    if isinstance(desired.backend, BackendProblem):
        problem = desired.backend
        return DemandRead(number=0, reason=problem.reason, message=problem.message)
    if link is None:
        return DemandRead(number=0, reason="NoAnswer", message="not connected yet")
    return await link.read(desired.backend_queue, max_age=max_age)


async def _pools(
    desired: DesiredQueue, fleet: Fleet, refused: Mapping[str, str], read: DemandRead
) -> tuple[PoolObservation, ...]:
    entries = {entry.name: entry for entry in desired.spec.pools}
    keys = [desired.pool_key(entry) for entry in desired.spec.pools]
    keys += [key for key in await fleet.pools(desired.key) if key.pool not in entries]
    observed: list[PoolObservation] = []
    for key in keys:
        engines = engines_of(read.demand, key.pool) if read.demand else ()
        observed.append(
            PoolObservation(
                key=key,
                entry=entries.get(key.pool),
                fleet=await fleet.observe(key),
                engines=engines,
                busy=sum(engine.busy for engine in engines),
                refused=refused.get(key.pool, ""),
            )
        )
    return tuple(observed)


def _decided(
    desired: DesiredQueue,
    memory: LookMemory,
    pools: tuple[PoolObservation, ...],
    read: DemandRead,
    now: float,
) -> LookMemory:
    inputs = QueueInputs(
        now=now,
        reading=reading_of(read.demand) if read.demand else None,
        pools=tuple(_inputs(desired, pool, memory) for pool in pools if pool.entry is not None),
        slo_seconds=float(desired.spec.slo.max_wait_seconds),
        max_replicas=desired.spec.max_replicas,
        connections=_connections(desired),
        paused=desired.spec.paused is PausedMode.SCALING,
    )
    autoscaling, decisions = decide(memory.autoscaling, inputs)
    return LookMemory(
        autoscaling=autoscaling, decisions=decisions, decided_on=(read.number, desired)
    )


def _inputs(desired: DesiredQueue, pool: PoolObservation, memory: LookMemory) -> PoolInputs:
    if pool.entry is None:
        raise ValueError(f"{pool.key}: has no entry to decide on")
    return PoolInputs(
        entry=pool.entry,
        replicas=pool.replicas,
        unschedulable=pool.fleet.count(PodPhase.UNSCHEDULABLE) if pool.fleet else 0,
        requested_replicas=pool.fleet.requested_replicas if pool.fleet else None,
        build=desired.build_of(pool.entry),
        startups=_startups(pool, memory.starting.get(pool.key.pool, ())),
    )


def _connections(desired: DesiredQueue) -> Connections | None:
    postgres = desired.spec.backend.postgres
    if postgres is None:
        return None
    return Connections(most=postgres.max_connections, per_worker=WORKER_CONNECTIONS)


def _startups(pool: PoolObservation, starting: tuple[str, ...]) -> tuple[float, ...]:
    """How long the pods took that were starting at the last look and are ready now."""
    return tuple(
        max(0.0, (pod.since - pod.created_at).total_seconds())
        for pod in pool.live
        if pod.phase is PodPhase.READY and pod.name in starting
    )


def _starting(pools: tuple[PoolObservation, ...]) -> dict[str, tuple[str, ...]]:
    return {
        pool.key.pool: tuple(pod.name for pod in pool.live if pod.phase is not PodPhase.READY)
        for pool in pools
    }


def _horizon(desired: DesiredQueue, memory: QueueMemory) -> float:
    """How far ahead due work has to be known: a start-up and a tick, of the slowest pool."""
    slowest = max((startup_seconds(pool.startups) for pool in memory.pools.values()), default=10.0)
    return slowest + tick_seconds(desired)


def tick_seconds(desired: DesiredQueue) -> float:
    """How often the queue is decided on: as its most eager pool asks for."""
    return float(min(pool.scaling.behavior.tick_seconds for pool in desired.spec.pools))


def _uncovered(
    desired: DesiredQueue, read: DemandRead, decisions: Mapping[str, Decision]
) -> tuple[str, ...]:
    if read.demand is None:
        return ()
    return uncovered_types(
        read.demand,
        served=(load.type for decision in decisions.values() for load in decision.load),
        patterns=(pattern for pool in desired.spec.pools for pattern in pool.activity_types),
        required=desired.spec.coverage.required_types,
    )
