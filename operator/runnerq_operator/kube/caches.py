"""The caches of all watched kinds, who is told of changes, and waiting until the watch shows something.

Only informers and resync put objects in, and the answers to own writes, which are objects too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from runnerq_operator.kube.cache import Change, ObjectCache
from runnerq_operator.kube.kinds import WATCHED, Kind

Listener = Callable[[Change], None]


class Caches:
    """One cache per watched kind, for the given namespaces (None stands for all of them)."""

    def __init__(self, namespaces: Sequence[str] | None) -> None:
        self.scopes: tuple[str | None, ...] = (None,) if namespaces is None else tuple(namespaces)
        self._listeners: list[Listener] = []
        self._changed = asyncio.Event()
        self._caches = {kind: ObjectCache(kind, self._tell, listed=self._wake) for kind in WATCHED}

    def __getitem__(self, kind: Kind) -> ObjectCache:
        return self._caches[kind]

    @property
    def synced(self) -> bool:
        """Whether everything was listed once: before that, absence means nothing."""
        return all(cache.synced(scope) for cache in self._caches.values() for scope in self.scopes)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` on every change, at once and in order, until what is returned is called. It
        must not raise or block."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def until(self, condition: Callable[[], bool], *, seconds: float | None) -> bool:
        """Wait until `condition` holds, looked at after every change; False when it does not in time.
        `seconds` None: without a limit."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            return condition()
        return True

    def _tell(self, change: Change) -> None:
        for listener in tuple(self._listeners):
            listener(change)
        self._wake()

    def _wake(self) -> None:
        # Whoever waits holds the old event; the next waiter takes the new one.
        self._changed.set()
        self._changed = asyncio.Event()
