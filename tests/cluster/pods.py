"""Manifests of the small pods that tests start, all fit for the restricted Pod Security Standard.

As plain objects, since kubectl takes JSON; whoever writes for users writes YAML instead.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Manifest = dict[str, Any]


def container(image: str, command: Sequence[str], **more: object) -> Manifest:
    """A container named `main` without rights and with a read-only root."""
    return {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **more,
    }


def pod_spec(main: Manifest, **more: object) -> Manifest:
    """The spec of a pod with that one container, run by a user without rights."""
    return {
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [main],
        **more,
    }


def pod(name: str, spec: Manifest) -> str:
    """A pod as text for `apply`."""
    metadata = {"name": name, "labels": {"app": name}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def deployment(name: str, spec: Manifest, *, replicas: int) -> str:
    """A Deployment of such pods as text for `apply`."""
    labels = {"app": name}
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )


def service(name: str, *, port: int, target: int) -> str:
    """A Service over the pods labelled with the same name, as text for `apply`."""
    spec = {"selector": {"app": name}, "ports": [{"port": port, "targetPort": target}]}
    metadata = {"name": name}
    return json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
