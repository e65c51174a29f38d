"""Reads the API server's audit log: who did what to which object.

The policy beside it (audit-policy.yaml) writes metadata only and leaves the control plane's own
traffic out, so what is here was done by tests, operators and pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One finished request.

    `user` is e.g. `system:serviceaccount:<namespace>:<name>`; `resource` is `deployments` and
    `subresource` `scale`, `status` or empty; `code` is the HTTP status of the answer.
    """

    at: datetime
    user: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    path: str
    code: int
    user_agent: str

    @property
    def writes(self) -> bool:
        """Whether the request wanted to change something."""
        return self.verb in {"create", "update", "patch", "delete", "deletecollection"}


def parse_events(lines: Iterable[str]) -> list[AuditEvent]:
    """Events of the log's lines in their order; a last line that is still being written is left.

    Raises:
        ValueError: a complete line is not an audit event.
    """
    import json

    events: list[AuditEvent] = []
    for line in lines:
        if line.endswith("\n"):
            raw = json.loads(line)
            if raw["stage"] == "ResponseComplete":
                events.append(_event(raw))
    return events


def _event(raw: dict[str, Any]) -> AuditEvent:
    target = raw.get("objectRef", {})
    return AuditEvent(
        at=datetime.fromisoformat(raw["requestReceivedTimestamp"]),
        user=raw["user"]["username"],
        verb=raw["verb"],
        group=target.get("apiGroup", ""),
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        path=raw["requestURI"],
        code=raw["responseStatus"]["code"],
        user_agent=raw.get("userAgent", ""),
    )
