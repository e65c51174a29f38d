"""The console of one queue: a Deployment of the operator's own image, and the Service in front. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from runnerq_operator.fleet.port import QueueKey
from runnerq_operator.kube.kinds import COMPONENT_LABEL, QUEUE, QUEUE_LABEL
from runnerq_operator.kube.objects import Object
from runnerq_operator.kube.render.pods import (
    APP_LABELS,
    METRICS_PORT,
    STOP_MARGIN_SECONDS,
    pod_template,
    probes,
    secret_variable,
)
from runnerq_operator.kube.template_hash import marks
from runnerq_operator.model.queue import Console, RunnerQueueSpec

CONTAINER: Final = "console"
PAGE_PORT: Final = 8080
SERVICE_PORT: Final = 80
STARTUP_SECONDS: Final = 120
_STOP_SECONDS: Final = 10


class ConsoleWish(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a console is made from."""

    queue: QueueKey
    owner_uid: str
    """Of the RunnerQueue."""
    spec: RunnerQueueSpec
    console: Console
    image: str
    """The operator's own."""
    checksum: str
    """Fingerprint of all Secrets that it reads; changes roll it."""

    @property
    def name(self) -> str:
        """Of the Deployment and the Service."""
        return f"{self.queue.name}-console"

    @property
    def user_input(self) -> Object:
        """What a person chose of it, and the operator's image: unlike workers, consoles are upgraded
        with the operator. The input of the hash."""
        return {
            "queue": self.spec.queue_name or self.queue.name,
            "backend": msgspec.to_builtins(self.spec.backend),
            "console": msgspec.to_builtins(self.console),
            "image": self.image,
        }


def console_deployment(wish: ConsoleWish) -> Object:
    """The Deployment without apiVersion and kind."""
    annotations = marks(wish.user_input, wish.checksum)
    auth = "none" if wish.console.auth.token_secret_ref is None else "token"
    pods = pod_template(
        container=CONTAINER,
        defaults={
            "image": wish.image,
            "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}},
            **probes(startup_seconds=STARTUP_SECONDS),
        },
        user=wish.console.template,
        owned={
            "command": ["runnerq", "console"],
            "args": [
                # All of the pod's own addresses; the auth is said in any case.
                *("--host", "0.0.0.0"),  # noqa: S104
                *("--port", str(PAGE_PORT)),
                *("--metrics-port", str(METRICS_PORT)),
                *("--auth", auth),
                # The operator exports the queue's depth; twice would be summed.
                "--no-queue-gauges",
            ],
            "env": _environment(wish),
            "ports": [
                {"name": "page", "containerPort": PAGE_PORT, "protocol": "TCP"},
                {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
            ],
            "grace": _STOP_SECONDS + STOP_MARGIN_SECONDS,
        },
        labels=_labels(wish.queue),
    )
    pods["metadata"].setdefault("annotations", {}).update(annotations)
    return {
        "metadata": {**_metadata(wish), "annotations": annotations},
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": _selector(wish.queue)},
            "template": pods,
        },
    }


def console_service(wish: ConsoleWish) -> Object:
    """The Service without apiVersion and kind."""
    return {
        "metadata": _metadata(wish),
        "spec": {
            "selector": _selector(wish.queue),
            "ports": [
                {
                    "name": "http",
                    "port": SERVICE_PORT,
                    "targetPort": "page",
                    "protocol": "TCP",
                }
            ],
        },
    }


def same_service(existing: Object, wanted: Object) -> bool:
    """Whether the Service says what is wanted; the API server fills in the rest."""
    spec: Object = existing["spec"]
    listed: list[Object] = spec.get("ports") or []
    ports = [
        {key: port.get(key) for key in ("name", "port", "targetPort", "protocol")}
        for port in listed
    ]
    return ports == wanted["spec"]["ports"] and spec.get("selector") == wanted["spec"]["selector"]


def _metadata(wish: ConsoleWish) -> Object:
    return {
        "name": wish.name,
        "namespace": wish.queue.namespace,
        "labels": {**APP_LABELS, **_labels(wish.queue)},
        "ownerReferences": [
            {
                "apiVersion": QUEUE.api_version,
                "kind": QUEUE.name,
                "name": wish.queue.name,
                "uid": wish.owner_uid,
                "controller": True,
            }
        ],
    }


def _selector(queue: QueueKey) -> dict[str, str]:
    return {QUEUE_LABEL: queue.name, COMPONENT_LABEL: "console"}


def _labels(queue: QueueKey) -> dict[str, str]:
    return {**_selector(queue), "app.kubernetes.io/name": "runnerq-console"}


def _environment(wish: ConsoleWish) -> list[dict[str, Any]]:
    variables: list[dict[str, Any]] = [
        {"name": "RUNNERQ_QUEUE", "value": wish.spec.queue_name or wish.queue.name}
    ]
    postgres = wish.spec.backend.postgres
    if postgres is not None:
        secret = postgres.url_secret_ref
        variables.append({"name": "RUNNERQ_SCHEMA", "value": postgres.schema})
        variables.append(secret_variable("RUNNERQ_BACKEND_URL", secret.name, secret.key))
    token = wish.console.auth.token_secret_ref
    if token is not None:
        variables.append(secret_variable("RUNNERQ_CONSOLE_TOKEN", token.name, token.key))
    return variables
