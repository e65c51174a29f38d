"""How old the watches are, seen from outside of kopf: on the session that it uses.

A watch is alive when bytes arrive on it (bookmarks come every minute) or when it was opened anew. It
never reads what arrives; kopf does.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp


@dataclass(slots=True)
class _Watch:
    alive_at: float
    opened: int = 0
    bytes_seen: int = 0
    response: weakref.ref[aiohttp.ClientResponse] | None = field(default=None)


class WatchAges:
    """Last sign of life of each watch, by plural name of its kind and namespace ("" = all)."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        restarted: Callable[[str], None] = lambda plural: None,
    ) -> None:
        self._clock = clock
        self._restarted = restarted
        self._watches: dict[tuple[str, str], _Watch] = {}

    def expect(self, plural: str, namespace: str) -> None:
        """There is to be such a watch: it ages from now on, even if it never opens."""
        self._watches.setdefault((plural, namespace), _Watch(self._clock()))

    def answered(self, path: str, response: aiohttp.ClientResponse, *, watch: bool) -> None:
        """A list or a watch of this path was answered."""
        key = _collection(path)
        known = self._watches.get(key)
        if known is None or response.status != 200:
            return
        known.alive_at = self._clock()
        if watch:
            if known.opened:
                self._restarted(key[0])
            known.opened += 1
            known.bytes_seen = 0
            known.response = weakref.ref(response)

    def ages(self) -> dict[tuple[str, str], float]:
        """Seconds since the last sign of life, of each watch; look often enough to see them."""
        now = self._clock()
        for watch in self._watches.values():
            response = None if watch.response is None else watch.response()
            if response is not None and not response.closed:
                arrived = response.content.total_bytes
                if arrived != watch.bytes_seen:
                    watch.bytes_seen, watch.alive_at = arrived, now
        return {key: now - watch.alive_at for key, watch in self._watches.items()}


def _collection(path: str) -> tuple[str, str]:
    """Plural and namespace of a collection's path; namespace "" for all."""
    parts = path.strip("/").split("/")
    if len(parts) >= 3 and parts[-3] == "namespaces":
        return parts[-1], parts[-2]
    return parts[-1], ""
