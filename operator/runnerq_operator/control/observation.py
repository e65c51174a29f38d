"""What one pass knows: the spec, the demand, the workers. Data only; made by `observe.py`.

The pure parts of the loop (plan, conditions, status) are functions of this.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec

from runnerq_operator.autoscale.decide import Decision
from runnerq_operator.control.backends import DemandRead
from runnerq_operator.control.desired import DesiredQueue
from runnerq_operator.fleet.port import FleetState, PodPhase, PodState, PoolKey
from runnerq_operator.model.pool import PoolEntry

LIVE_PHASES = (PodPhase.STARTING, PodPhase.READY, PodPhase.UNSCHEDULABLE)
"""Pods that count towards the replicas; draining ones are on their way out."""


class EngineView(msgspec.Struct, frozen=True, kw_only=True):
    """An engine that is not known to be gone."""

    engine_id: UUID
    pod: str
    busy: int
    cordoned: bool
    beat_at: datetime
    """When it last reported, by the backend's clock: `busy` is from then."""
    nothing_runs: bool = False
    """At the time of the read no activity of its types was held by anybody, so not by it either."""


class PoolObservation(msgspec.Struct, frozen=True, kw_only=True):
    key: PoolKey
    entry: PoolEntry | None
    """None: the spec no longer names this pool."""
    fleet: FleetState | None
    """None: it does not exist yet."""
    engines: tuple[EngineView, ...] = ()
    busy: int = 0
    refused: str = ""
    """Why its template was refused, in the API server's words; "" when it was not."""

    @property
    def replicas(self) -> int:
        return self.fleet.replicas if self.fleet else 0

    @property
    def live(self) -> tuple[PodState, ...]:
        pods = self.fleet.pods if self.fleet else ()
        return tuple(pod for pod in pods if pod.phase in LIVE_PHASES)


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One queue as a pass found it."""

    desired: DesiredQueue
    now: float
    """Monotonic seconds."""
    at: datetime
    """Wall clock, for people."""
    read: DemandRead
    backend_ready: bool
    """The schema was brought up to date and the backend opened, at some time."""
    backend_kind: str = ""
    pools: tuple[PoolObservation, ...] = ()
    decisions: dict[str, Decision] = {}
    """By pool name, of the pools in the spec; empty before the backend was ever ready."""
    uncovered: tuple[str, ...] = ()
    """Waiting or required types without workers, sorted."""
