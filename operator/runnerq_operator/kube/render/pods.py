"""What pods of workers and consoles have in common: security, probes, who wins over whom.

The operator's defaults lie below, the user's template over them, and on top what the contract with the
container needs and nobody may change. Everything passes the restricted Pod Security Standard.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runnerq_operator.kube.merge import merged
from runnerq_operator.kube.objects import Object

METRICS_PORT: Final = 9090
"""/metrics, /healthz and /readyz of workers and consoles."""
STOP_MARGIN_SECONDS: Final = 5
"""How much longer than its drain a pod may live before it is killed."""

APP_LABELS: Final = {
    "app.kubernetes.io/part-of": "runnerq",
    "app.kubernetes.io/managed-by": "runnerq-operator",
}


def pod_template(
    *, container: str, defaults: Object, user: Mapping[str, Any], owned: Object, labels: Object
) -> Object:
    """A pod template: `user` over the operator's defaults, then what is not the user's to say.

    `defaults` and `owned` are parts of the container called `container`; `owned` may also carry
    "grace", the termination grace period in seconds.
    """
    grace = owned.pop("grace")
    base: Object = {
        "metadata": {"labels": dict(APP_LABELS)},
        "spec": {
            # Workers have no business with the Kubernetes API.
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{"name": container, **_hardened(), **defaults}],
            # The root file system is read-only; Python and its libraries expect a /tmp.
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }
    top: Object = {
        "metadata": {"labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": grace,
            "containers": [{"name": container, **owned}],
        },
    }
    known = {name: user[name] for name in ("metadata", "spec") if name in user}
    return merged(merged(base, known), top)


def probes(*, startup_seconds: int) -> Object:
    """Probes on the metrics port. A container is ready within a second of saying so at start;
    after that one missed answer is not an outage."""

    def probe(path: str, **settings: int) -> Object:
        return {"httpGet": {"path": path, "port": "metrics"}, **settings}

    return {
        "startupProbe": probe(
            "/readyz", periodSeconds=1, timeoutSeconds=2, failureThreshold=startup_seconds
        ),
        "readinessProbe": probe("/readyz", periodSeconds=5, timeoutSeconds=3, failureThreshold=3),
        "livenessProbe": probe("/healthz", periodSeconds=10, timeoutSeconds=5, failureThreshold=6),
    }


def secret_variable(name: str, secret: str, key: str) -> Object:
    """An environment variable that the kubelet reads from a Secret."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _hardened() -> Object:
    return {
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - in the container
    }
