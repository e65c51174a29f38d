"""The kinds of objects that the operator reads and writes, and where the API server has them.

Nothing else in the project spells a path, a group or a plural. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """One namespaced kind in one version."""

    group: str
    """"" is the core group."""
    version: str
    plural: str
    name: str
    """In CamelCase, as in `kind:`."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Path of an object, of a collection (no name), or of all namespaces' (namespace None)."""
        root = f"/apis/{self.group}" if self.group else "/api"
        parts = [root, self.version]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


GROUP: Final = "runnerq.dev"
VERSION: Final = "v1alpha1"

QUEUE: Final = Kind(GROUP, VERSION, "runnerqueues", "RunnerQueue")
POOL: Final = Kind(GROUP, VERSION, "runnerworkerpools", "RunnerWorkerPool")
DEPLOYMENT: Final = Kind("apps", "v1", "deployments", "Deployment")
POD: Final = Kind("", "v1", "pods", "Pod")
SERVICE: Final = Kind("", "v1", "services", "Service")
SECRET: Final = Kind("", "v1", "secrets", "Secret")
EVENT: Final = Kind("events.k8s.io", "v1", "events", "Event")
LEASE: Final = Kind("coordination.k8s.io", "v1", "leases", "Lease")

WATCHED: Final = (QUEUE, POOL, DEPLOYMENT, SERVICE, POD)
"""What is kept in caches. Of the last three only objects that carry QUEUE_LABEL."""

QUEUE_LABEL: Final = "runnerq.dev/queue"
"""On every child of a RunnerQueue, its pods included; the value is the queue object's name."""
POOL_LABEL: Final = "runnerq.dev/pool"
"""On what belongs to one pool; the value is the pool's name within its queue."""
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
"""`worker` or `console`."""
TEMPLATE_HASH: Final = "runnerq.dev/template-hash"
"""Annotation on Deployments and pods: the user's input, hashed (see template_hash.py)."""
HASH_VERSION: Final = "runnerq.dev/hash-version"
CONTENT_CHECKSUM: Final = "runnerq.dev/content-checksum"
"""Annotation on pod templates; changes with the content of the Secret it uses, which rolls the pods."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

TEMPLATE_MANAGER: Final = "runnerq-template"
"""Field manager of everything but replicas."""
SCALE_MANAGER: Final = "runnerq-autoscaler"
"""Field manager of replicas and of the victims' deletion cost, and of nothing else."""
STATUS_MANAGER: Final = "runnerq-status"
