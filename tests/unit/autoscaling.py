"""Building blocks for the tests of decide(): pools and readings with what matters spelt out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from runnerq_operator.autoscale.decide import Decision, decide
from runnerq_operator.autoscale.inputs import (
    Counted,
    EngineReading,
    PoolInputs,
    QueueInputs,
    Reading,
    TypeLoad,
)
from runnerq_operator.autoscale.memory import QueueMemory
from runnerq_operator.model.pool import PoolEntry
from runnerq_operator.model.scaling import Scaling


def entry(
    name: str = "mail",
    *types: str,
    concurrency: int = 8,
    weight: int = 1,
    behavior: Mapping[str, int] | None = None,
    **scaling: Any,
) -> PoolEntry:
    """A pool's entry; further keywords are those of `scaling`, in camelCase."""
    return msgspec.convert(
        {
            "name": name,
            "activityTypes": list(types) or ["send"],
            "app": "shop.activities",
            "concurrency": concurrency,
            "weight": weight,
            "scaling": {"maxReplicas": 50, **scaling, "behavior": dict(behavior or {})},
        },
        PoolEntry,
    )


def pool(replicas: int, spec: PoolEntry | None = None, **fields: Any) -> PoolInputs:
    return PoolInputs(entry=spec or entry(), replicas=replicas, **fields)


def waiting(count: int, *, kind: str = "send", age: float = 1.0, running: int = 0, due: int = 0):
    """A reading with one type in it."""
    load = TypeLoad(
        type=kind,
        claimable=count,
        oldest_seconds=age if count else None,
        running=running,
        due=due,
    )
    return Reading(types=(load,))


def scaling_of(spec: PoolEntry) -> Scaling:
    return spec.scaling


class Loop:
    """Decides again and again, as the control loop does: time passes and decisions are followed."""

    def __init__(self, *specs: PoolEntry, tick: float = 5.0, **queue: Any) -> None:
        self.memory = QueueMemory()
        self.now = 1000.0
        self.tick = tick
        self.queue = queue
        self.pools = {
            spec.name: pool(spec.scaling.min_replicas, spec) for spec in specs or (entry(),)
        }
        self.decisions: dict[str, Decision] = {}

    @property
    def replicas(self) -> int:
        """Of the only pool."""
        (only,) = self.pools.values()
        return only.replicas

    def change(self, name: str | None = None, **fields: Any) -> None:
        """Change a pool's inputs (of the only one by default)."""
        key = name or next(iter(self.pools))
        self.pools[key] = msgspec.structs.replace(self.pools[key], **fields)

    def step(self, reading: Reading | None, *, passing: float | None = None) -> Decision:
        """One tick; returns the first pool's decision."""
        self.now += self.tick if passing is None else passing
        inputs = QueueInputs(
            now=self.now, reading=reading, pools=tuple(self.pools.values()), **self.queue
        )
        self.memory, self.decisions = decide(self.memory, inputs)
        for name, decision in self.decisions.items():
            self.change(name, replicas=decision.replicas)
        return next(iter(self.decisions.values()))

    def through_first_window(self, reading: Reading) -> None:
        """Live through the window after a start in which nothing shrinks."""
        until = self.now + 241
        while self.now < until:
            self.step(reading)


def engine(
    name: str,
    *,
    pool_name: str = "mail",
    types: tuple[str, ...] = ("send",),
    busy: int = 0,
    started: int = 0,
    finished: int = 0,
    run_seconds: float = 0.0,
    kind: str = "send",
) -> EngineReading:
    return EngineReading(
        engine_id=name,
        pool=pool_name,
        types=types,
        busy=busy,
        counters={kind: Counted(started, finished, run_seconds)},
    )
