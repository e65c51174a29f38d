"""What the operator knows of one kind: the newest version seen of each object.

Two sources feed it, a watch and a list every few minutes, in any order and with repetitions; versions
decide, so that neither can bring back what is deleted or overwrite the newer with the older. Pure; it
never answers before a list was complete (`synced`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from runnerq_operator.kube.kinds import QUEUE_LABEL, Kind
from runnerq_operator.kube.objects import (
    Object,
    labels_of,
    name_of,
    namespace_of,
    uid_of,
    version_of,
)


@dataclass(frozen=True, slots=True)
class ObjectKey:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Change:
    """One object went from `old` to `new`; None = it did not exist, or does no more."""

    kind: Kind
    key: ObjectKey
    old: Object | None
    new: Object | None


class ObjectCache:
    """The objects of one kind, by name, and by the queue that their label names."""

    def __init__(
        self, kind: Kind, listener: Callable[[Change], None], *, listed: Callable[[], None]
    ) -> None:
        self.kind = kind
        self._listener = listener
        self._listed = listed
        self._objects: dict[ObjectKey, Object] = {}
        self._by_queue: dict[ObjectKey, set[ObjectKey]] = defaultdict(set)
        # Deletions seen, by uid, until a list is newer than they are.
        self._deleted: dict[str, int] = {}
        self._synced: set[str | None] = set()

    def synced(self, namespace: str | None) -> bool:
        """Whether a complete list of this namespace (None: of all) was taken in once."""
        return namespace in self._synced

    def get(self, namespace: str, name: str) -> Object | None:
        """The object, or None when there is none."""
        return self._objects.get(ObjectKey(namespace, name))

    def of_queue(self, namespace: str, queue: str) -> list[Object]:
        """Objects whose label says they belong to this queue, by name."""
        keys = self._by_queue.get(ObjectKey(namespace, queue), set())
        return [self._objects[key] for key in sorted(keys, key=lambda key: key.name)]

    def all(self) -> Iterable[Object]:
        """Every object."""
        return list(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def observe(self, body: Object, *, deleted: bool) -> None:
        """Take in one object as a watch, a list or the answer to a write has it."""
        body = slim(body)
        uid, version, key = uid_of(body), version_of(body), _key(body)
        known = self._objects.get(key)
        if deleted:
            self._deleted[uid] = max(version, self._deleted.get(uid, 0))
            if known is not None and uid_of(known) == uid:
                self._set(key, None)
            return
        if uid in self._deleted or (known is not None and version_of(known) >= version):
            return
        self._set(key, body)

    def replace_all(self, namespace: str | None, items: Iterable[Object], version: str) -> None:
        """Take in a complete list: what it lacks is gone, unless it is newer than the list."""
        listed = int(version)
        present: set[ObjectKey] = set()
        for item in items:
            present.add(_key(item))
            self.observe(item, deleted=False)
        for key, body in list(self._objects.items()):
            inside = namespace is None or key.namespace == namespace
            if inside and key not in present and version_of(body) <= listed:
                self._set(key, None)
        self._deleted = {uid: at for uid, at in self._deleted.items() if at > listed}
        self._synced.add(namespace)
        self._listed()

    def _set(self, key: ObjectKey, body: Object | None) -> None:
        old = self._objects.get(key)
        if old is not None:
            self._by_queue[_queue(old)].discard(key)
        if body is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = body
            self._by_queue[_queue(body)].add(key)
        self._listener(Change(self.kind, key, old, body))


def slim(body: Object) -> Object:
    """The object without the record of field owners, which is half of its size and never read."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    return {**body, "metadata": metadata}


def _key(body: Object) -> ObjectKey:
    return ObjectKey(namespace_of(body), name_of(body))


def _queue(body: Object) -> ObjectKey:
    return ObjectKey(namespace_of(body), labels_of(body).get(QUEUE_LABEL, ""))
