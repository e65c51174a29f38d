"""What the operator is told by its environment, checked once at start."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from runnerq.errors import ConfigurationError

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class OperatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of one operator process."""

    own_namespace: str
    """Where its Lease is."""
    identity: str
    """Of this process in the Lease: never the same twice."""
    lease: str = "runnerq-operator"
    namespaces: tuple[str, ...] | None = None
    """Those that are watched; None = all of the cluster."""
    console_image: str = ""
    """Image of the consoles: the operator's own."""
    metrics_port: int = 9090
    kubeconfig: str | None = None


def settings_from(environment: Mapping[str, str] | None = None) -> OperatorSettings:
    """The settings in the environment. Raises ConfigurationError naming the variable.

    RUNNERQ_OPERATOR_NAMESPACE  where the Lease is (default: the pod's own)
    RUNNERQ_OPERATOR_NAMESPACES what is watched: names with commas; empty or unset = all
    RUNNERQ_OPERATOR_LEASE      name of the Lease
    RUNNERQ_OPERATOR_IMAGE      image of the consoles
    RUNNERQ_METRICS_PORT        /metrics, /healthz, /readyz (0 = a free port)
    POD_NAME                    shown in the Lease and on Events
    KUBECONFIG                  outside of a cluster
    """
    env = os.environ if environment is None else environment
    listed = [name.strip() for name in env.get("RUNNERQ_OPERATOR_NAMESPACES", "").split(",")]
    namespaces = tuple(dict.fromkeys(name for name in listed if name))
    for name in namespaces:
        _checked(name, "RUNNERQ_OPERATOR_NAMESPACES")
    own = env.get("RUNNERQ_OPERATOR_NAMESPACE") or _pod_namespace()
    pod = env.get("POD_NAME") or socket.gethostname()
    return OperatorSettings(
        own_namespace=_checked(own, "RUNNERQ_OPERATOR_NAMESPACE"),
        identity=f"{pod}_{secrets.token_hex(4)}",
        lease=_checked(
            env.get("RUNNERQ_OPERATOR_LEASE") or "runnerq-operator", "RUNNERQ_OPERATOR_LEASE"
        ),
        namespaces=namespaces or None,
        console_image=env.get("RUNNERQ_OPERATOR_IMAGE", ""),
        metrics_port=_port(env.get("RUNNERQ_METRICS_PORT") or "9090"),
        kubeconfig=env.get("KUBECONFIG") or None,
    )


def _checked(name: str, field: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} is not a Kubernetes name; use lower-case letters, digits and -", field=field
        )
    return name


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise ConfigurationError(
            f"{text!r} is not a port; give a number from 0 to 65535", field="RUNNERQ_METRICS_PORT"
        )
    return int(text)


def _pod_namespace() -> str:
    try:
        return _SERVICE_ACCOUNT_NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(
            "this is not a pod, so say in which namespace the Lease is to be",
            field="RUNNERQ_OPERATOR_NAMESPACE",
        ) from error
