"""The RunnerWorkerPool of a queue's entry, as a Deployment makes ReplicaSets. Pure.

It never contains replicas: that field is for `kubectl scale` and the HorizontalPodAutoscaler.
"""

from __future__ import annotations

from runnerq_operator.fleet.port import FleetUnavailable, PoolKey
from runnerq_operator.kube.kinds import POOL_LABEL, QUEUE, QUEUE_LABEL
from runnerq_operator.kube.objects import Object, labels_of, uid_of
from runnerq_operator.kube.render.pods import APP_LABELS


def pool_object(queue: Object, pool: PoolKey) -> Object:
    """The RunnerWorkerPool as `queue` (a RunnerQueue as the API server has it) wants it.

    Raises FleetUnavailable when the queue no longer has such a pool.
    """
    entries: list[Object] = queue["spec"]["pools"]
    entry = next((entry for entry in entries if entry["name"] == pool.pool), None)
    if entry is None:
        raise FleetUnavailable(f"{pool}: the RunnerQueue has no such pool (any more)")
    return {
        "metadata": {
            "name": pool.object_name,
            "namespace": pool.namespace,
            "labels": {**APP_LABELS, QUEUE_LABEL: pool.queue, POOL_LABEL: pool.pool},
            "ownerReferences": [
                {
                    "apiVersion": QUEUE.api_version,
                    "kind": QUEUE.name,
                    "name": pool.queue,
                    "uid": uid_of(queue),
                    "controller": True,
                }
            ],
        },
        "spec": {**entry, "queueRef": {"name": pool.queue}},
    }


def same_pool(existing: Object, wanted: Object) -> bool:
    """Whether `existing` says what `wanted` does; only replicas may differ."""
    spec = {name: value for name, value in existing["spec"].items() if name != "replicas"}
    metadata = existing["metadata"]
    return (
        spec == wanted["spec"]
        and labels_of(wanted).items() <= labels_of(existing).items()
        and metadata.get("ownerReferences") == wanted["metadata"]["ownerReferences"]
    )
