"""Keys that need a pass, each at most once: deduplicated, delayed, with a backoff of its own.

A key is handed to one worker at a time. Adding it meanwhile makes it come again afterwards, so nothing
that happened during a pass is missed. First come, first served.

    idle --add--> waiting (--its time comes--> due) --take--> held --release--> idle | due again
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

Key = TypeVar("Key")

_FIRST_BACKOFF = 0.5
_LONGEST_BACKOFF = 60.0


class KeyedQueue(Generic[Key]):
    """`clock` answers monotonic seconds, those of the event loop by default."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._due: dict[Key, float] = {}
        """When each waiting key is to be handed out; the earliest that was asked for."""
        self._order: list[tuple[float, int, Key]] = []
        """Heap over `_due`; entries that `_due` no longer agrees with are passed over."""
        self._numbers = itertools.count()
        self._held: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        """One for each worker that has nothing to do."""

    def add(self, key: Key, *, after: float = 0.0) -> None:
        """Hand the key out in `after` seconds, or earlier if that was asked for before."""
        at = self._clock() + after
        known = self._due.get(key)
        if known is None or at < known:
            self._due[key] = at
            heapq.heappush(self._order, (at, next(self._numbers), key))
            self._wake()

    def retry(self, key: Key) -> float:
        """Hand the key out again after a pause that doubles with every failure; the pause."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause = min(_FIRST_BACKOFF * 2.0**failures, _LONGEST_BACKOFF)
        self.add(key, after=pause)
        return pause

    def succeeded(self, key: Key) -> None:
        """The next failure starts with the shortest pause again."""
        self._failures.pop(key, None)

    def forget(self, key: Key) -> None:
        """Do not hand the key out any more, unless it is added again."""
        self._due.pop(key, None)
        self._failures.pop(key, None)

    def __len__(self) -> int:
        """Keys that wait, due or not."""
        return len(self._due)

    @asynccontextmanager
    async def take(self) -> AsyncGenerator[Key]:
        """Wait for the next due key and hold it."""
        key = await self._next()
        try:
            yield key
        finally:
            self._held.discard(key)
            self._wake()

    async def _next(self) -> Key:
        while True:
            key, wait = self._look()
            if key is not None:
                return key
            changed = asyncio.get_running_loop().create_future()
            self._waiting.add(changed)
            try:
                async with asyncio.timeout(wait):
                    await changed
            except TimeoutError:
                continue
            finally:
                self._waiting.discard(changed)

    def _wake(self) -> None:
        """Let every idle worker look again."""
        for changed in self._waiting:
            if not changed.done():
                changed.set_result(None)

    def _look(self) -> tuple[Key | None, float | None]:
        """The next due key that nobody holds, or how long until there may be one."""
        now = self._clock()
        passed: list[tuple[float, int, Key]] = []
        found: Key | None = None
        wait: float | None = None
        while self._order:
            at, _, key = self._order[0]
            if self._due.get(key) != at:
                heapq.heappop(self._order)
                continue
            if at > now:
                wait = at - now
                break
            entry = heapq.heappop(self._order)
            if key in self._held:
                passed.append(entry)
                continue
            del self._due[key]
            self._held.add(key)
            found = key
            break
        for entry in passed:
            heapq.heappush(self._order, entry)
        return found, wait
