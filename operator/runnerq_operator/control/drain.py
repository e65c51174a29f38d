"""Scale-down of one pool, one step per pass: never end a busy worker while an idle one exists. Pure.

    chosen --cordon--> cordoned --idle by a report made after the cordon, or the drain time is up-->
      done --named to the fleet, replicas lowered--> leaving --> gone
    demand rises before that: uncordoned again

What is remembered is only since when; who is cordoned is read from the backend, so a restarted operator
carries on where the old one stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import field

from runnerq_operator.control.observation import EngineView, PoolObservation
from runnerq_operator.fleet.port import PodPhase, PodState

_UNREPORTED_SECONDS = 15.0
"""How long a ready pod may be without an engine in the backend before it is taken for useless."""


class Victim(msgspec.Struct, frozen=True):
    since: float
    """When it was first chosen."""
    cordoned_at: datetime | None = None
    """Backend's time of the first read that showed it cordoned: what it reports later, it reports as
    one that claims no more."""


class DrainMemory(msgspec.Struct, frozen=True, kw_only=True):
    victims: Mapping[str, Victim] = {}
    """By pod."""
    leaving: frozenset[str] = field(default_factory=frozenset[str])
    """Pods that the last lowering was for and that are still there."""
    idle_since: Mapping[UUID, float] = {}
    ready_since: Mapping[str, float] = {}


class DrainStep(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now."""

    memory: DrainMemory
    cordon: tuple[UUID, ...] = ()
    uncordon: tuple[UUID, ...] = ()
    prefer: tuple[str, ...] = ()
    """Pods that are to go with this lowering."""
    replicas: int | None = None
    """Set this number; None = leave it."""
    mismatched: tuple[str, ...] = ()
    """Pods that were to go, while others went in their place."""


def drain_step(
    pool: PoolObservation,
    memory: DrainMemory,
    *,
    target: int,
    drain_seconds: float,
    now: float,
    as_of: datetime | None,
) -> DrainStep:
    """The next step of bringing a pool from its replicas to `target`. `as_of` None: the demand could
    not be read, so nothing is known about who is idle."""
    memory, mismatched = _carried_on(pool, memory, now)
    if target >= pool.replicas:
        step = _back_to_work(pool, memory, target)
    elif pool.fleet is not None and pool.fleet.rolling:
        step = DrainStep(memory=memory)
    else:
        step = _fewer(pool, memory, target=target, limit=drain_seconds, now=now, as_of=as_of)
    return msgspec.structs.replace(step, mismatched=mismatched)


def _carried_on(
    pool: PoolObservation, memory: DrainMemory, now: float
) -> tuple[DrainMemory, tuple[str, ...]]:
    """What is still true of the memory, and the pods that stayed in place of others."""
    live = {pod.name for pod in pool.live}
    leaving = memory.leaving & live
    mismatched: tuple[str, ...] = ()
    if leaving and len(live) <= pool.replicas:
        mismatched, leaving = tuple(sorted(leaving)), leaving - leaving
    idle = {
        engine.engine_id: memory.idle_since.get(engine.engine_id, now)
        for engine in pool.engines
        if engine.busy == 0
    }
    ready = {
        pod.name: memory.ready_since.get(pod.name, now)
        for pod in pool.live
        if pod.phase is PodPhase.READY
    }
    victims = {name: victim for name, victim in memory.victims.items() if name in live}
    carried = DrainMemory(victims=victims, leaving=leaving, idle_since=idle, ready_since=ready)
    return carried, mismatched


def _back_to_work(pool: PoolObservation, memory: DrainMemory, target: int) -> DrainStep:
    """Whoever stays may claim again."""
    staying = {pod.name for pod in pool.live if pod.name not in memory.leaving}
    uncordon = tuple(
        engine.engine_id for engine in pool.engines if engine.cordoned and engine.pod in staying
    )
    if target == pool.replicas and len(pool.live) - len(memory.leaving) > target:
        # Lowered, and the fleet has not yet shown who goes: let nobody in by mistake.
        return DrainStep(memory=memory)
    return DrainStep(
        memory=msgspec.structs.replace(memory, victims={}),
        uncordon=uncordon,
        replicas=target if target > pool.replicas else None,
    )


def _fewer(
    pool: PoolObservation,
    memory: DrainMemory,
    *,
    target: int,
    limit: float,
    now: float,
    as_of: datetime | None,
) -> DrainStep:
    engines = {engine.pod: engine for engine in pool.engines}
    judge = _Judge(engines, memory, now, as_of)
    there = [pod for pod in pool.live if pod.name not in memory.leaving]
    unborn = max(0, min(pool.replicas - len(there), pool.replicas - target))
    chosen = sorted(there, key=judge.rank)[: pool.replicas - target - unborn]
    victims = {pod.name: judge.victim(pod) for pod in chosen}
    done = tuple(
        pod.name
        for pod in chosen
        if now - victims[pod.name].since >= limit or judge.may_go(pod, victims[pod.name])
    )
    lowered = pool.replicas - unborn - len(done)
    spared = {pod.name for pod in there} - victims.keys()
    return DrainStep(
        memory=msgspec.structs.replace(memory, victims=victims, leaving=memory.leaving.union(done)),
        cordon=tuple(
            engines[name].engine_id
            for name in victims
            if name in engines and not engines[name].cordoned
        ),
        uncordon=tuple(
            engine.engine_id for engine in pool.engines if engine.cordoned and engine.pod in spared
        ),
        prefer=done,
        replicas=lowered if lowered < pool.replicas else None,
    )


class _Judge:
    """Who should go, and who may."""

    def __init__(
        self,
        engines: Mapping[str, EngineView],
        memory: DrainMemory,
        now: float,
        as_of: datetime | None,
    ) -> None:
        self._engines = engines
        self._memory = memory
        self._now = now
        self._as_of = as_of

    def rank(self, pod: PodState) -> tuple[int, bool, float, int, str]:
        """First what does not work at all, then the idle (cordoned ones, then longest), then the
        least busy."""
        engine = self._engines.get(pod.name)
        if pod.phase is not PodPhase.READY:
            return (0 if pod.phase is PodPhase.UNSCHEDULABLE else 1, False, 0.0, 0, pod.name)
        if engine is None:
            return (2 if self._useless(pod) else 4, False, 0.0, 0, pod.name)
        if engine.busy == 0:
            since = self._memory.idle_since.get(engine.engine_id, self._now)
            return (3, not engine.cordoned, since, 0, pod.name)
        return (5, not engine.cordoned, 0.0, engine.busy, pod.name)

    def victim(self, pod: PodState) -> Victim:
        """What is remembered of a chosen pod."""
        known = self._memory.victims.get(pod.name, Victim(self._now))
        engine = self._engines.get(pod.name)
        if engine is None or not engine.cordoned:
            return Victim(known.since)
        return Victim(known.since, known.cordoned_at or self._as_of)

    def may_go(self, pod: PodState, victim: Victim) -> bool:
        """Whether ending this pod ends no work."""
        engine = self._engines.get(pod.name)
        if pod.phase is not PodPhase.READY:
            return True
        if engine is None:
            return self._useless(pod)
        if victim.cordoned_at is None or self._as_of is None:
            return False
        reported_since = engine.beat_at >= victim.cordoned_at
        read_since = self._as_of > victim.cordoned_at
        return (reported_since and engine.busy == 0) or (read_since and engine.nothing_runs)

    def _useless(self, pod: PodState) -> bool:
        """Ready, and yet the backend has had no engine of it for a while."""
        ready_for = self._now - self._memory.ready_since.get(pod.name, self._now)
        return self._as_of is not None and ready_for >= _UNREPORTED_SECONDS
