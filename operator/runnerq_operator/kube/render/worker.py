"""The Deployment of one pool: the worker contract, as pods. Pure.

It never says how many: replicas belong to another field manager, see KubernetesFleet.
"""

from __future__ import annotations

from typing import Final

from runnerq_operator.fleet.port import PoolKey, WorkerTemplate
from runnerq_operator.kube.kinds import (
    COMPONENT_LABEL,
    POOL,
    POOL_LABEL,
    QUEUE_LABEL,
    TEMPLATE_HASH,
)
from runnerq_operator.kube.objects import Object
from runnerq_operator.kube.render.pods import (
    METRICS_PORT,
    STOP_MARGIN_SECONDS,
    pod_template,
    probes,
    secret_variable,
)
from runnerq_operator.kube.template_hash import marks

CONTAINER: Final = "worker"
STARTUP_SECONDS: Final = 300
"""How long a worker may import its app before the kubelet starts it again."""


def user_input(template: WorkerTemplate) -> Object:
    """What of a pool its pods are made from and a person chose: the input of the hash."""
    secret = template.backend_secret
    return {
        "app": template.app,
        "queue": template.queue_name,
        "types": list(template.activity_types),
        "concurrency": template.concurrency,
        "drain": template.drain_seconds,
        "schema": template.schema,
        "secret": None if secret is None else [secret.name, secret.key],
        "template": dict(template.pod_template),
    }


def pod_labels(pool: PoolKey) -> dict[str, str]:
    """Labels of the pool's pods; the first three are also the Deployment's selector."""
    return {
        QUEUE_LABEL: pool.queue,
        POOL_LABEL: pool.pool,
        COMPONENT_LABEL: "worker",
        "app.kubernetes.io/name": "runnerq-worker",
    }


def selector(pool: PoolKey) -> dict[str, str]:
    """The labels by which the pool's Deployment knows its pods; never changes."""
    return {
        QUEUE_LABEL: pool.queue,
        POOL_LABEL: pool.pool,
        COMPONENT_LABEL: "worker",
    }


def worker_deployment(pool: PoolKey, template: WorkerTemplate, *, owner_uid: str) -> Object:
    """The Deployment without apiVersion, kind and replicas; its owner is the RunnerWorkerPool."""
    annotations = marks(user_input(template), template.backend_fingerprint)
    pods = pod_template(
        container=CONTAINER,
        defaults=probes(startup_seconds=STARTUP_SECONDS),
        user=template.pod_template,
        owned={
            "command": ["runnerq", "worker", template.app],
            "env": _environment(pool, template, annotations[TEMPLATE_HASH]),
            "ports": [{"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"}],
            "grace": template.drain_seconds + STOP_MARGIN_SECONDS,
        },
        labels=pod_labels(pool),
    )
    pods["metadata"].setdefault("annotations", {}).update(annotations)
    return {
        "metadata": {
            "name": pool.object_name,
            "namespace": pool.namespace,
            "labels": pod_labels(pool),
            "annotations": annotations,
            "ownerReferences": [
                {
                    "apiVersion": POOL.api_version,
                    "kind": POOL.name,
                    "name": pool.object_name,
                    "uid": owner_uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "selector": {"matchLabels": selector(pool)},
            "revisionHistoryLimit": 2,
            # A new build must be serving before an old worker leaves.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0},
            },
            "template": pods,
        },
    }


def _environment(pool: PoolKey, template: WorkerTemplate, build_id: str) -> list[Object]:
    values = {
        "RUNNERQ_QUEUE": template.queue_name,
        "RUNNERQ_ACTIVITY_TYPES": ",".join(template.activity_types),
        "RUNNERQ_CONCURRENCY": str(template.concurrency),
        "RUNNERQ_POOL": pool.pool,
        "RUNNERQ_SCHEMA": template.schema,
        "RUNNERQ_BUILD_ID": build_id,
        "RUNNERQ_DRAIN_SECONDS": str(template.drain_seconds),
    }
    variables: list[Object] = [{"name": name, "value": value} for name, value in values.items()]
    variables.append(
        {
            "name": "RUNNERQ_POD_NAME",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
        }
    )
    if template.backend_secret is not None:
        secret = template.backend_secret
        variables.append(secret_variable("RUNNERQ_BACKEND_URL", secret.name, secret.key))
    return variables
