"""What an adapter hands to the loop: one RunnerQueue as it is to be, with its backend's address resolved.

The adapter reads objects and Secrets; the loop never does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from runnerq_operator.fleet.port import PoolKey, QueueKey, SecretKey, WorkerTemplate
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
    pod_templates: Mapping[str, Mapping[str, Any]] = {}
    """By pool name: the pool's pod template laid over the queue's; absent = all defaults."""
    code: str = ""
    """Names the workers' code where the template does not; when it changes, what the workers register
    may have changed too."""

    @property
    def backend_queue(self) -> str:
        """Name of the queue in the backend."""
        return self.spec.queue_name or self.key.name

    def pool_key(self, pool: PoolEntry) -> PoolKey:
        return PoolKey(self.key.namespace, self.key.name, pool.name)

    def worker_template(self, pool: PoolEntry) -> WorkerTemplate:
        """What the pods of a pool are made from."""
        address = self.backend if isinstance(self.backend, BackendAddress) else None
        return WorkerTemplate(
            app=pool.app,
            queue_name=self.backend_queue,
            activity_types=pool.activity_types,
            concurrency=pool.concurrency,
            drain_seconds=pool.drain.timeout_seconds,
            schema=address.schema if address else "",
            backend_secret=address.secret if address else None,
            backend_fingerprint=address.fingerprint if address else "",
            pod_template=self.pod_templates.get(pool.name, {}),
        )

    def build_of(self, pool: PoolEntry) -> str:
        """Names the code of a pool's workers, as far as it can be told from here."""
        source = (pool.app, self.pod_templates.get(pool.name, {}), self.code)
        return hashlib.sha256(msgspec.json.encode(source, order="sorted")).hexdigest()[:16]
