"""The API server in memory, as far as feed, status sink and event recorder use it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from runnerq_operator.kube.api import NotFound, Unreachable
from runnerq_operator.kube.caches import Caches
from runnerq_operator.kube.kinds import QUEUE, SECRET, WATCHED, Kind


@dataclass
class Cluster:
    """The API in memory, as far as feed, sink and recorder use it: objects by kind, name and version,
    and a log of all writes. What is written is put into the caches, as a watch would."""

    caches: Caches
    objects: dict[tuple[Kind, str], dict[str, Any]] = field(
        default_factory=dict[tuple[Kind, str], dict[str, Any]]
    )
    writes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    down: bool = False
    version: int = 100

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        self._answer()
        found = self.objects.get((kind, name))
        if found is None:
            raise NotFound(404, "NotFound", f"no {name}")
        return found

    async def apply(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: dict[str, Any],
        *,
        manager: str,
        force: bool = False,
        subresource: str = "",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        self._answer()
        self.writes.append((f"{kind.plural}/{subresource}" if subresource else kind.plural, name))
        known = self.objects.get((kind, name), {})
        if subresource:
            return self.put(kind, {**known, "status": body["status"]})
        return self.put(kind, {**known, **body})

    async def create(
        self, kind: Kind, namespace: str, body: dict[str, Any], *, manager: str
    ) -> dict[str, Any]:
        self._answer()
        self.writes.append((f"{kind.plural}+", body.get("reason", "")))
        return self.put(kind, body)

    async def merge(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: dict[str, Any],
        *,
        manager: str,
        subresource: str = "",
    ) -> dict[str, Any]:
        self._answer()
        if (kind, name) not in self.objects:
            raise NotFound(404, "NotFound", name)
        self.writes.append((kind.plural, str(body)))
        return self.put(kind, {**self.objects[kind, name], **body})

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str) -> None:
        self._answer()
        self.writes.append((f"{kind.plural}-", name))
        self.drop(kind, name)

    def put(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        metadata = {"namespace": "shop", "uid": f"uid-{body['metadata']['name']}"}
        metadata |= body["metadata"] | {"resourceVersion": str(self.version)}
        stored = {**body, "metadata": metadata}
        self.objects[kind, metadata["name"]] = stored
        if kind in WATCHED:
            self.caches[kind].observe(stored, deleted=False)
        return stored

    def drop(self, kind: Kind, name: str) -> None:
        gone = self.objects.pop((kind, name))
        self.version += 1
        metadata = {**gone["metadata"], "resourceVersion": str(self.version)}
        if kind in WATCHED:
            self.caches[kind].observe({**gone, "metadata": metadata}, deleted=True)

    def secret(self, **data: str) -> None:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
        self.put(SECRET, {"metadata": {"name": "database"}, "data": encoded})

    def queue(self, *, generation: int = 1, **spec: Any) -> None:
        base: dict[str, Any] = {
            "backend": {"postgres": {"urlSecretRef": {"name": "database", "key": "url"}}},
            "pools": [{"name": "bulk", "app": "shop", "activityTypes": ["*"]}],
        }
        self.put(
            QUEUE,
            {
                "metadata": {"name": "emails", "generation": generation},
                "spec": {**base, **spec},
            },
        )

    def _answer(self) -> None:
        if self.down:
            raise Unreachable("connection refused")


def cluster() -> Cluster:
    made = Cluster(Caches(["shop"]))
    made.secret(url="postgresql://db")
    return made
