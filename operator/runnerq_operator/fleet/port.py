"""The port `Fleet`: the only way in which the control loop touches workers.

An adapter observes and obeys. It never decides how many workers there should be, and it never answers
an observation that it could not make with an empty one.

    absent --ensure (0 replicas)--> present --set_replicas n--> n pods --remove--> absent
    pod:  starting -> ready -> draining -> gone          starting -> unschedulable -> starting
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

import msgspec


class FleetError(Exception):
    """Base of what an adapter raises on purpose."""


class FleetUnavailable(FleetError):
    """The place where the workers run did not answer; nothing is known about it now."""


class ReplicasConflict(FleetError):
    """The pool changed since it was observed: observe again, then decide again."""


class TemplateRefused(FleetError):
    """The worker template cannot run. The message is the place's own words."""


class QueueKey(msgspec.Struct, frozen=True, order=True):
    """Names one RunnerQueue. `namespace` is "" where there are none (local processes)."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class PoolKey(msgspec.Struct, frozen=True, order=True):
    """Names one pool of one RunnerQueue."""

    namespace: str
    queue: str
    pool: str

    @property
    def owner(self) -> QueueKey:
        return QueueKey(self.namespace, self.queue)

    @property
    def object_name(self) -> str:
        """Name of the objects made for this pool."""
        return f"{self.queue}-{self.pool}"

    def __str__(self) -> str:
        return f"{self.owner}/{self.pool}"


class SecretKey(msgspec.Struct, frozen=True):
    """One key of a Secret in the queue's namespace."""

    name: str
    key: str


class PodPhase(StrEnum):
    """Where a pod (or local process) is in its life. A pod that is gone is not listed at all."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    """Asked to stop: finishes what it runs and claims nothing more."""
    UNSCHEDULABLE = "unschedulable"
    """Cannot start, and more of its kind could not either: no room, no image, crashing at start."""


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of a pool as last observed."""

    name: str
    """What its engine registers as `pod` in the backend."""
    phase: PodPhase
    created_at: datetime
    since: datetime
    """When it entered this phase, by the fleet's clock."""
    detail: str = ""
    """Why it is where it is, in the place's own words: `ImagePullBackOff: ...`, `exit code 1`."""
    template_hash: str = ""
    """Which template it was made from; pods of an older one are being replaced."""
    restarts: int = 0


class FleetState(msgspec.Struct, frozen=True, kw_only=True):
    """One pool as last observed."""

    pool: PoolKey
    replicas: int
    """What was last set and accepted: pods that are to exist, not those that do."""
    pods: tuple[PodState, ...] = ()
    version: str = ""
    """Opaque; handed back to `set_replicas` so that it acts only on what was observed."""
    rolling: bool = False
    """A new template is being rolled out: nothing is scaled down meanwhile."""
    requested_replicas: int | None = None
    """What a person or an HPA asked for on the pool's scale subresource; None = nobody did.
    Honoured in mode Disabled only."""
    image: str = ""

    def count(self, *phases: PodPhase) -> int:
        return sum(pod.phase in phases for pod in self.pods)

    @property
    def ready(self) -> int:
        return self.count(PodPhase.READY)


class WorkerTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """All that a pod of this pool is made from. The adapter turns it into its own form (a Deployment,
    a process) and keeps the worker contract: the RUNNERQ_* variables, the command, the grace."""

    app: str
    """What `runnerq worker` imports: `module`, `module:registry`, or several with commas."""
    queue_name: str
    """Name of the queue in the backend (not the object's name)."""
    activity_types: tuple[str, ...]
    concurrency: int
    drain_seconds: int
    """How long a worker that was asked to stop may finish; the adapter kills 5 s after that."""
    schema: str
    backend_secret: SecretKey | None = None
    """Where the backend's URL is read from by the pod itself; None: the adapter was given the URL."""
    backend_fingerprint: str = ""
    """Changes when the content of the Secret does, which rolls the pods. Never the content itself."""
    pod_template: Mapping[str, Any] = {}
    """The user's pod template, the pool's merged over the queue's; {} = all defaults."""


class Fleet(Protocol):
    """Workers of all pools in one place (a cluster, this machine).

    Every call may raise FleetUnavailable; every call may be repeated.
    """

    def subscribe(self, listener: Callable[[PoolKey], None]) -> None:
        """Call `listener`, on the event loop, whenever something about a pool may have changed."""
        ...

    async def ensure(self, pool: PoolKey, template: WorkerTemplate) -> None:
        """Make the pool with no replicas, or roll its pods to this template if it differs.
        Replicas are never touched. Raises TemplateRefused."""
        ...

    async def observe(self, pool: PoolKey) -> FleetState | None:
        """The pool as it is; None when it does not exist."""
        ...

    async def set_replicas(self, pool: PoolKey, replicas: int, *, version: str) -> None:
        """Only this many pods shall exist. Raises ReplicasConflict when the pool is no longer the
        one observed as `version`. Where fewer than now, those named to `prefer_victims` go first."""
        ...

    async def prefer_victims(self, pool: PoolKey, pods: Sequence[str]) -> None:
        """These pods, and no others, are the first to go when replicas are lowered. Returns only
        once that is certain; FleetUnavailable otherwise."""
        ...

    async def pools(self, queue: QueueKey) -> tuple[PoolKey, ...]:
        """The pools that exist for this queue, also those its spec no longer names."""
        ...

    async def remove(self, pool: PoolKey) -> None:
        """Drain and delete the pool and its pods; absent is fine."""
        ...
