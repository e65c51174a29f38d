"""The two CustomResourceDefinitions, as documents: schema, subresources, columns, names.

Pure; `generate.py` writes them to crds/.
"""

from __future__ import annotations

from typing import Any

from runnerq_operator.model import GROUP, VERSION
from runnerq_operator.model.pool import NAME_LIMIT, RunnerWorkerPoolSpec
from runnerq_operator.model.queue import RunnerQueueSpec
from runnerq_operator.model.rules import Model
from runnerq_operator.model.schema import schema_of
from runnerq_operator.model.status import RunnerQueueStatus, RunnerWorkerPoolStatus

Document = dict[str, Any]

_QUEUE_TEXT = (
    "A queue of activities and the pools of workers that run them. The operator reads the demand from "
    "the queue's backend and sizes each pool between its minReplicas and maxReplicas."
)
_POOL_TEXT = (
    "One pool of workers of a RunnerQueue. Made and kept by the operator; edit the RunnerQueue instead. "
    "`kubectl scale` works while scaling.mode is Disabled."
)


def queue_crd() -> Document:
    """The CustomResourceDefinition of RunnerQueue."""
    columns = [
        _column("Backend", "string", ".status.backend", "Kind of the backend."),
        _column("Pools", "integer", ".status.pools", "Pools in the spec."),
        _column(
            "Backlog", "integer", ".status.backlog", "Activities that wait and could start now."
        ),
        _column("Oldest", "string", ".status.oldest", "How long the oldest of them has waited."),
        _column("Workers", "integer", ".status.workers", "Workers that are ready."),
        _column(
            "Coverage", "string", ".status.coverage", "Whether every waiting type has workers."
        ),
        _column(
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "Backend, schema and templates are good and the workers decided on are ready.",
        ),
        _age(),
    ]
    return _crd(
        kind="RunnerQueue",
        plural="runnerqueues",
        short="rq",
        text=_QUEUE_TEXT,
        spec=RunnerQueueSpec,
        spec_text="What is to be.",
        status=RunnerQueueStatus,
        columns=columns,
        name_limit=NAME_LIMIT,
        subresources={"status": {}},
    )


def pool_crd() -> Document:
    """The CustomResourceDefinition of RunnerWorkerPool."""
    columns = [
        _column("Queue", "string", ".spec.queueRef.name", "The RunnerQueue it belongs to."),
        _column("Min", "integer", ".spec.scaling.minReplicas", "Never fewer."),
        _column("Max", "integer", ".spec.scaling.maxReplicas", "Never more."),
        _column("Desired", "integer", ".status.desiredReplicas", "Workers decided on."),
        _column("Ready", "integer", ".status.readyReplicas", "Workers that are ready."),
        _column("Busy", "integer", ".status.busySlots", "Slots in use."),
        _column(
            "Backlog", "integer", ".status.backlog", "Activities that wait and could start now."
        ),
        _column("Oldest", "string", ".status.oldest", "How long the oldest of them has waited."),
        _column("Reason", "string", ".status.reason", "Why so many workers."),
        _age(),
        _column("Types", "string", ".status.types", "What it runs.", wide=True),
        _column("Image", "string", ".status.image", "Image of the workers.", wide=True),
        _column("Clamped By", "string", ".status.clampedBy", "What limited the number.", wide=True),
    ]
    return _crd(
        kind="RunnerWorkerPool",
        plural="runnerworkerpools",
        short="rwp",
        text=_POOL_TEXT,
        spec=RunnerWorkerPoolSpec,
        spec_text="What is to be: the pool's entry in the RunnerQueue.",
        status=RunnerWorkerPoolStatus,
        columns=columns,
        name_limit=63,
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
    )


def _crd(
    *,
    kind: str,
    plural: str,
    short: str,
    text: str,
    spec: type[Model],
    spec_text: str,
    status: type[Model],
    columns: list[Document],
    name_limit: int,
    subresources: Document,
) -> Document:
    name_rules = [
        {
            "rule": f"self.metadata.name.size() <= {name_limit}",
            "message": f"metadata.name: is longer than {name_limit} characters; choose a shorter one",
        },
        {
            "rule": "!self.metadata.name.contains('.')",
            "message": "metadata.name: has a dot, and Services are named after it; use dashes",
        },
    ]
    schema = {
        "description": text,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "maxLength": 64},
            "kind": {"type": "string", "maxLength": 64},
            "metadata": {"type": "object"},
            "spec": {"description": spec_text, **schema_of(spec)},
            "status": {"description": "What is, as the operator last saw it.", **schema_of(status)},
        },
        "x-kubernetes-validations": name_rules,
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
        "additionalPrinterColumns": columns,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["runnerq"],
            },
            "versions": [version],
        },
    }


def _column(name: str, kind: str, path: str, text: str, *, wide: bool = False) -> Document:
    column: Document = {"name": name, "type": kind, "jsonPath": path, "description": text}
    return {**column, "priority": 1} if wide else column


def _age() -> Document:
    return _column("Age", "date", ".metadata.creationTimestamp", "When it was made.")
