"""A decision taken apart: terms, then steps. What is shown is what was computed, not a retelling.

`Explanation.recompute()` gets the number again from the written terms and steps alone, also after a trip
through JSON; a property test holds it to the decision.
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec


class StepKind(StrEnum):
    FLOOR = "floor"
    CEILING = "ceiling"
    SET = "set"


class Step(msgspec.Struct, frozen=True):
    """One bound that was put on the number."""

    name: str
    """One of `REASONS`."""
    kind: StepKind
    value: int

    def apply(self, replicas: int) -> int:
        match self.kind:
            case StepKind.FLOOR:
                return max(replicas, self.value)
            case StepKind.CEILING:
                return min(replicas, self.value)
            case StepKind.SET:
                return self.value


class Number(msgspec.Struct, frozen=True):
    """A number of workers on its way through the steps."""

    replicas: int
    steps: tuple[Step, ...] = ()

    def at_least(self, value: int, why: str) -> Number:
        return self._then(Step(why, StepKind.FLOOR, value))

    def at_most(self, value: int, why: str) -> Number:
        return self._then(Step(why, StepKind.CEILING, value))

    def exactly(self, value: int, why: str) -> Number:
        return self._then(Step(why, StepKind.SET, value))

    def _then(self, step: Step) -> Number:
        return Number(step.apply(self.replicas), (*self.steps, step))


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool's load asks for, in slots (activities at the same time) unless said otherwise."""

    claimable: int
    running: int
    due: int
    """Becomes claimable within the horizon."""
    oldest_seconds: float | None
    arrivals_per_second: float
    service_seconds: float
    """Mean over the load, weighted by what waits and arrives."""
    startup_seconds: float
    drain_seconds: float
    """In how long the backlog is to be worked off: what the SLO leaves after a start-up and the
    oldest's wait so far."""
    slots_per_worker: int
    capacity: int
    """Slots of the workers that exist or are starting."""
    steady: float
    """Arrival rate x service time: busy on average with what arrives."""
    headroom: float
    """For bursts that are over before a new worker could be there."""
    schedule: float
    """For what becomes due."""
    drain: float
    """For what waits beyond the free slots."""
    hold: int
    """In use, or to be used at once by what waits."""

    @property
    def slots(self) -> float:
        """Never more than there is work for, and never fewer than are in use."""
        flowing = self.steady + self.headroom
        work = self.running + self.claimable + self.due
        needed = max(self.hold, max(flowing, self.schedule) + self.drain)
        return min(max(flowing, work), needed)

    @property
    def workers(self) -> int:
        # A rounding error of floats must not cost a whole worker.
        return math.ceil(self.slots / self.slots_per_worker - 1e-9)

    @property
    def reason(self) -> str:
        """The term that decided."""
        flowing = self.steady + self.headroom
        if self.slots <= 0:
            return "Idle"
        if self.drain > 0 and max(flowing, self.schedule) + self.drain > self.hold:
            return "Backlog"
        if self.hold >= max(flowing, self.schedule):
            return "InFlight"
        return "Scheduled" if self.schedule > flowing else "SteadyLoad"


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a decision came from."""

    current: int
    """Replicas before."""
    terms: Terms | None
    """None: there was no fresh reading, and the start is `current`."""
    steps: tuple[Step, ...]
    replicas: int
    """The result."""
    slo_seconds: float
    failures: int = 0
    """Failed reads in a row."""

    def recompute(self) -> int:
        """The result, from terms and steps."""
        replicas = self.current if self.terms is None else self.terms.workers
        for step in self.steps:
            replicas = step.apply(replicas)
        return replicas

    @property
    def effective(self) -> tuple[Step, ...]:
        """The steps that changed the number."""
        replicas = self.current if self.terms is None else self.terms.workers
        changed: list[Step] = []
        for step in self.steps:
            after = step.apply(replicas)
            if after != replicas:
                changed.append(step)
            replicas = after
        return tuple(changed)

    @property
    def reason(self) -> str:
        """One word: the last step that changed the number, or the term it came from."""
        changed = self.effective
        if changed:
            return changed[-1].name
        if any(step.name == "ScaleToZero" for step in self.steps):
            return "ScaleToZero"
        return "DemandUnknown" if self.terms is None else self.terms.reason

    @property
    def clamped_by(self) -> str:
        """The limit that kept the number from the recommended one; "" when none did."""
        changed = [step.name for step in self.effective if step.name in LIMITS]
        return changed[-1] if changed else ""

    def summary(self) -> str:
        """The decision as a sentence."""
        if self.current == self.replicas:
            head = f"stays at {_workers(self.replicas)}"
        else:
            head = f"{self.current} -> {_workers(self.replicas)}"
        return f"{head}: {self._because()}"

    def _because(self) -> str:
        changed = self.effective
        limit = REASONS[changed[-1].name] if changed else ""
        terms = self.terms
        if terms is None:
            return limit or REASONS["DemandUnknown"]
        if self.reason == "ScaleToZero":
            return REASONS["ScaleToZero"]
        counts = {"waiting": terms.claimable, "running": terms.running, "due soon": terms.due}
        said = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        needed = f"{terms.slots:,.1f} slots {REASONS[terms.reason]}, {terms.slots_per_worker} each"
        parts = [said or "nothing waiting", needed if terms.slots > 0 else "", limit]
        return "; ".join(part for part in parts if part)


def _workers(count: int) -> str:
    return f"{count} worker" if count == 1 else f"{count} workers"


REASONS = {
    "Idle": "nothing waits, runs or is due",
    "Backlog": "to work off what waits before the SLO breaks",
    "InFlight": "for what runs and what free slots take at once",
    "SteadyLoad": "for what keeps arriving",
    "Scheduled": "for what becomes due",
    "Work": "there is work, so at least one worker",
    "ScaleToZero": "idle for scaleToZeroSeconds",
    "ZeroDelay": "not yet idle for scaleToZeroSeconds",
    "Restarted": "no shrinking in the first scaleDownWindowSeconds after a restart",
    "ScaleDownWindow": "more was recommended within scaleDownWindowSeconds",
    "ScaleDownTolerance": "saves less than scaleDownTolerancePercent",
    "RiseDelay": "a small rise, not yet for riseDelaySeconds",
    "RiseStep": "at most doubled, or 20 more, in one step",
    "Unschedulable": "workers cannot be placed",
    "MinReplicas": "at least scaling.minReplicas",
    "MaxReplicas": "at most scaling.maxReplicas",
    "QueueBudget": "at most its share of the queue's maxReplicas",
    "BackendConnections": "at most its share of backend.postgres.maxConnections",
    "DemandUnknown": "the demand could not be read, so nothing changes",
    "Fallback": "the demand could not be read for long: scaling.fallback",
    "Paused": "spec.paused is Scaling",
    "DryRun": "scaling.mode is DryRun",
    "Disabled": "scaling.mode is Disabled: set by hand",
}
"""Every reason a decision can have, and its words."""

LIMITS = frozenset(
    {
        "Unschedulable",
        "RiseDelay",
        "RiseStep",
        "MinReplicas",
        "MaxReplicas",
        "QueueBudget",
        "BackendConnections",
        "ScaleDownWindow",
        "ScaleDownTolerance",
        "Restarted",
    }
)
