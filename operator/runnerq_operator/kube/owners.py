"""Reads who owns which field of an object (`metadata.managedFields`). Pure."""

from __future__ import annotations

from runnerq_operator.kube.api import ApiError, Conflict
from runnerq_operator.kube.objects import Object


def owns_replicas(item: Object, manager: str) -> bool:
    """Whether `manager` owns `spec.replicas`, whichever way it wrote it."""
    entries: list[Object] = item["metadata"].get("managedFields") or []
    for entry in entries:
        fields: Object = entry.get("fieldsV1") or {}
        spec: Object = fields.get("f:spec") or {}
        if entry.get("manager") == manager and "f:replicas" in spec:
            return True
    return False


def conflict_message(error: ApiError) -> str:
    """The API server's own words, and for a conflict of owners what to do about it."""
    if isinstance(error, Conflict) and "conflict with" in str(error):
        return (
            f"{error}; another field manager owns what the template sets. Undo its change "
            "(`kubectl edit`, another controller), or set the field in spec.template"
        )
    return str(error)
