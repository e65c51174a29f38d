"""What an adapter hands to the loop: one RunnerQueue as it is to be, with its backend's address resolved.

The adapter reads objects and Secrets; the loop never does.
"""

from __future__ import annotations

import msgspec

from runnerq_operator.fleet.port import PoolKey, QueueKey, SecretKey
from runnerq_operator.model.pool import PoolEntry
from runnerq_operator.model.queue import RunnerQueueSpec


class BackendAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the queue lives. Two queues with the same URL and schema share one backend object."""

    url: str
    schema: str = "runnerq"
    secret: SecretKey | None = None
    """Where the workers' pods read the URL themselves; None: the fleet was given it."""
    fingerprint: str = ""
    """Changes when the Secret's content does: rolls the workers. Never the content itself."""


class BackendProblem(msgspec.Struct, frozen=True, kw_only=True):
    """There is no usable address. `reason` is one of those of the condition BackendReachable."""

    reason: str
    message: str


class DesiredQueue(msgspec.Struct, frozen=True, kw_only=True):
    """One RunnerQueue, complete: applying the same one again changes nothing."""

    key: QueueKey
    spec: RunnerQueueSpec
    backend: BackendAddress | BackendProblem
    generation: int = 0

    @property
    def backend_queue(self) -> str:
        """Name of the queue in the backend."""
        return self.spec.queue_name or self.key.name

    def pool_key(self, pool: PoolEntry) -> PoolKey:
        return PoolKey(self.key.namespace, self.key.name, pool.name)
