"""Fleet of local processes: a pod is a `runnerq worker` on this machine.

Level-triggered like its bigger sibling: whatever changes, `_converge` compares what is with what is
wanted. A new template (or new code) is rolled out one worker at a time, and the old ones stay until the
new ones are ready, so code that does not start stops nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

import msgspec

from runnerq_operator.fleet.port import (
    FleetState,
    FleetUnavailable,
    PodPhase,
    PoolKey,
    QueueKey,
    ReplicasConflict,
    WorkerTemplate,
)
from runnerq_operator.fleet.worker_process import WorkerProcess

logger = logging.getLogger(__name__)

Output = Callable[[PoolKey, str, str], None]
"""Gets (pool, worker, line) for everything that workers write."""


def worker_command(app: str) -> tuple[str, ...]:
    """What a local worker is started with: this interpreter, so this environment's packages."""
    return (sys.executable, "-m", "runnerq.cli.main", "worker", app)


@dataclass
class _Pool:
    template: WorkerTemplate
    template_hash: str
    replicas: int = 0
    version: int = 1
    preferred: frozenset[str] = frozenset()
    removing: bool = False
    workers: dict[str, WorkerProcess] = field(default_factory=dict[str, WorkerProcess])

    def staying(self) -> list[WorkerProcess]:
        return [worker for worker in self.workers.values() if not worker.leaving]

    def outdated(self) -> list[WorkerProcess]:
        return [one for one in self.staying() if one.template_hash != self.template_hash]


class ProcessFleet:
    """Implements `Fleet` on this machine. Use as a context manager: leaving it drains the workers.

    `backend_url` is where they find their backend; `environment` what they inherit.
    """

    def __init__(
        self,
        *,
        backend_url: str,
        output: Output,
        environment: Mapping[str, str] | None = None,
        command: Callable[[str], Sequence[str]] = worker_command,
        spawned: Callable[[int], None] = lambda _pid: None,
    ) -> None:
        self._backend_url = backend_url
        self._output = output
        self._environment = dict(os.environ if environment is None else environment)
        self._command = command
        self._spawned = spawned
        self._listeners: list[Callable[[PoolKey], None]] = []
        self._pools: dict[PoolKey, _Pool] = {}
        self._numbers = itertools.count(1)
        self._code = 0
        self._tasks: asyncio.TaskGroup | None = None
        self._closing = False
        self._left = asyncio.Event()
        """Set when a worker has left."""

    async def __aenter__(self) -> Self:
        self._tasks = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(self, *_exc_info: object) -> None:
        """Drain every worker and wait for the last, whatever the block was left by."""
        self.stop_all()
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            await tasks.__aexit__(None, None, None)

    @property
    def working(self) -> int:
        """Workers that nobody has asked to stop."""
        return sum(len(pool.staying()) for pool in self._pools.values())

    def addresses(self) -> dict[PoolKey, list[str]]:
        """Where the health and metrics of the workers are (host:port), by pool."""
        return {
            key: [worker.address for worker in pool.workers.values() if worker.address]
            for key, pool in self._pools.items()
        }

    def stop_all(self) -> None:
        """Drain every worker and start no other, whatever is asked for from now on."""
        self._closing = True
        for pool in self._pools.values():
            for worker in pool.workers.values():
                worker.stop()

    async def gone(self) -> None:
        """Until no worker is left. Only after `stop_all` is that for good."""
        while any(pool.workers for pool in self._pools.values()):
            self._left.clear()
            await self._left.wait()

    def kill_all(self) -> None:
        """Do not wait for the drain any more."""
        for pool in self._pools.values():
            for worker in pool.workers.values():
                worker.kill()

    def reload(self) -> None:
        """The code changed: replace every worker, one after the other."""
        self._code += 1
        for key, pool in self._pools.items():
            pool.template_hash = self._hash(pool.template)
            self._converge(key, pool)

    def subscribe(self, listener: Callable[[PoolKey], None]) -> None:
        self._listeners.append(listener)

    async def ensure(self, pool: PoolKey, template: WorkerTemplate) -> None:
        self._open()
        known = self._pools.get(pool)
        if known is None:
            self._pools[pool] = _Pool(template, self._hash(template))
        elif known.template != template or known.removing:
            known.template, known.template_hash = template, self._hash(template)
            known.removing = False
            self._converge(pool, known)

    async def observe(self, pool: PoolKey) -> FleetState | None:
        self._open()
        known = self._pools.get(pool)
        if known is None:
            return None
        return FleetState(
            pool=pool,
            replicas=known.replicas,
            pods=tuple(worker.state for worker in known.workers.values()),
            version=str(known.version),
            rolling=bool(known.outdated()),
            image="this machine",
        )

    async def set_replicas(self, pool: PoolKey, replicas: int, *, version: str) -> None:
        self._open()
        known = self._pools.get(pool)
        if known is None or str(known.version) != version:
            raise ReplicasConflict(f"{pool} changed since it was observed")
        known.version += 1
        known.replicas = replicas
        self._converge(pool, known)

    async def prefer_victims(self, pool: PoolKey, pods: Sequence[str]) -> None:
        self._open()
        if pool in self._pools:
            self._pools[pool].preferred = frozenset(pods)

    async def pools(self, queue: QueueKey) -> tuple[PoolKey, ...]:
        self._open()
        return tuple(sorted(key for key in self._pools if key.owner == queue))

    async def remove(self, pool: PoolKey) -> None:
        known = self._pools.get(pool)
        if known is not None:
            known.removing, known.replicas = True, 0
            self._converge(pool, known)

    def _open(self) -> None:
        if self._tasks is None:
            raise FleetUnavailable("the fleet is closed")

    def _hash(self, template: WorkerTemplate) -> str:
        source = msgspec.json.encode((template, self._code), order="sorted")
        return hashlib.sha256(source).hexdigest()[:12]

    def _converge(self, key: PoolKey, pool: _Pool) -> None:
        """One step from what is towards what is wanted; the change it makes leads to the next."""
        if self._closing:
            return
        self._lower(pool)
        outdated = pool.outdated()
        current = [one for one in pool.staying() if one not in outdated]
        if outdated:
            # A replacement at a time, in addition; the old one goes when the new one works.
            ready = [one for one in current if one.phase is PodPhase.READY]
            surplus = len(outdated) + len(ready) - pool.replicas
            for worker in outdated[: max(0, surplus)]:
                worker.stop()
            if len(ready) == len(current) and len(current) < pool.replicas:
                self._start(key, pool)
        else:
            for _ in range(pool.replicas - len(current)):
                self._start(key, pool)
        if pool.removing and not pool.workers:
            del self._pools[key]

    def _lower(self, pool: _Pool) -> None:
        """Stop what is too many: those named first, then what does not work, old code, the youngest."""
        staying = pool.staying()
        replacing = sum(
            one.template_hash == pool.template_hash and one.phase is not PodPhase.READY
            for one in staying
        )
        surge = min(1, replacing) if pool.outdated() else 0
        surplus = len(staying) - pool.replicas - surge
        order = {name: number for number, name in enumerate(pool.workers)}
        ranked = sorted(
            staying,
            key=lambda one: (
                one.name not in pool.preferred,
                one.phase is PodPhase.READY,
                one.template_hash == pool.template_hash,
                -order[one.name],
            ),
        )
        for worker in ranked[: max(0, surplus)]:
            worker.stop()

    def _start(self, key: PoolKey, pool: _Pool) -> None:
        if self._tasks is None:
            return
        name = f"{key.object_name}-{next(self._numbers)}"
        worker = WorkerProcess(
            name=name,
            template_hash=pool.template_hash,
            command=self._command(pool.template.app),
            environment=self._environment_of(key, pool, name),
            drain_seconds=pool.template.drain_seconds,
            changed=lambda: self._changed(key, pool),
            output=lambda line: self._output(key, name, line),
            spawned=self._spawned,
        )
        pool.workers[name] = worker
        self._tasks.create_task(self._live(key, pool, worker), name=name)

    async def _live(self, key: PoolKey, pool: _Pool, worker: WorkerProcess) -> None:
        try:
            await worker.run()
        finally:
            pool.workers.pop(worker.name, None)
            self._left.set()
        self._changed(key, pool)

    def _changed(self, key: PoolKey, pool: _Pool) -> None:
        if self._pools.get(key) is pool:
            self._converge(key, pool)
        for listener in self._listeners:
            listener(key)

    def _environment_of(self, key: PoolKey, pool: _Pool, name: str) -> dict[str, str]:
        """The worker contract, over what the user's pod template sets, over what we inherited."""
        template = pool.template
        contract = {
            "RUNNERQ_BACKEND_URL": self._backend_url,
            "RUNNERQ_QUEUE": template.queue_name,
            "RUNNERQ_ACTIVITY_TYPES": ",".join(template.activity_types),
            "RUNNERQ_CONCURRENCY": str(template.concurrency),
            "RUNNERQ_POOL": key.pool,
            "RUNNERQ_POD_NAME": name,
            "RUNNERQ_BUILD_ID": pool.template_hash,
            "RUNNERQ_DRAIN_SECONDS": str(template.drain_seconds),
            "PYTHONUNBUFFERED": "1",
        }
        inherited = {**self._environment, **plain_environment(template.pod_template)}
        inherited.pop("RUNNERQ_SCHEMA", None)
        if self._backend_url.startswith(("postgres://", "postgresql://")):
            contract["RUNNERQ_SCHEMA"] = template.schema
        return {**inherited, **contract}


def plain_environment(pod_template: Mapping[str, Any]) -> dict[str, str]:
    """Variables with plain values of the container `worker` in a pod template. What refers to
    Secrets, ConfigMaps or fields of the pod has no meaning outside a cluster.

    >>> plain_environment({"spec": {"containers": [
    ...     {"name": "worker", "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {}}]}
    ... ]}})
    {'A': '1'}
    """
    found: dict[str, str] = {}
    spec = pod_template.get("spec")
    containers = cast("Mapping[str, Any]", spec).get("containers") if isinstance(spec, dict) else ()
    for container in cast("Sequence[Any]", containers or ()):
        if not isinstance(container, dict):
            continue
        entries = cast("Mapping[str, Any]", container)
        if entries.get("name") != "worker":
            continue
        for variable in cast("Sequence[Any]", entries.get("env") or ()):
            if isinstance(variable, dict):
                pair = cast("Mapping[str, Any]", variable)
                name, value = pair.get("name"), pair.get("value")
                if isinstance(name, str) and isinstance(value, str):
                    found[name] = value
    return found
