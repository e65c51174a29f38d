"""API objects as parsed JSON, and what is read from all of them. Pure, the one place of such casts."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
"""An API object as parsed JSON."""


def name_of(item: Object) -> str:
    return item["metadata"]["name"]


def namespace_of(item: Object) -> str:
    return item["metadata"]["namespace"]


def uid_of(item: Object) -> str:
    return item["metadata"]["uid"]


def version_of(item: Object) -> int:
    """Resource versions of one kind are ordered numbers; the API guarantees it since 1.35, and etcd
    has always done so."""
    return int(item["metadata"]["resourceVersion"])


def labels_of(item: Object) -> dict[str, str]:
    labels: dict[str, str] | None = item["metadata"].get("labels")
    return labels or {}


def annotations_of(item: Object) -> dict[str, str]:
    annotations: dict[str, str] | None = item["metadata"].get("annotations")
    return annotations or {}


def owner_uids(item: Object) -> set[str]:
    """Uids of everything that this object is deleted with."""
    references: list[Object] | None = item["metadata"].get("ownerReferences")
    return {reference["uid"] for reference in references or []}


def being_deleted(item: Object) -> bool:
    return "deletionTimestamp" in item["metadata"]
