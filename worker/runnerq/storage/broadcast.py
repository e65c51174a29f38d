"""Broadcast: hands transitions to whoever watches a queue's live stream in this process.

Never makes the sender wait: a subscriber that reads too slowly loses events and is told so by a
StreamGap, after which it must read its lists again.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from runnerq.storage.records import ActivityEvent, StreamGap
from runnerq.storage.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable

_BUFFER = 5_000
"""Events kept for one slow subscriber: a few seconds at full rate, about 2 MB."""


class Broadcast:
    def __init__(self, *, buffer: int = _BUFFER) -> None:
        self._lock = threading.Lock()
        self._buffer = buffer
        self._subscribers: dict[str, set[_Subscriber]] = {}

    def watched(self, queue: str) -> bool:
        """Whether anybody listens: without, events need not even be built."""
        return bool(self._subscribers.get(queue))

    def publish(self, queue: str, events: Iterable[ActivityEvent]) -> None:
        with self._lock:
            subscribers = tuple(self._subscribers.get(queue, ()))
        if subscribers:
            batch = tuple(events)
            for subscriber in subscribers:
                subscriber.push(batch)

    def gap(self, queue: str, reason: str) -> None:
        """Tell the watchers of `queue` that events were lost before they came here."""
        with self._lock:
            subscribers = tuple(self._subscribers.get(queue, ()))
        for subscriber in subscribers:
            subscriber.push((StreamGap(reason),))

    @asynccontextmanager
    async def subscribe(
        self, queue: str
    ) -> AsyncGenerator[AsyncIterator[ActivityEvent | StreamGap]]:
        subscriber = _Subscriber(self._buffer)
        with self._lock:
            self._subscribers.setdefault(queue, set()).add(subscriber)
        try:
            yield subscriber.events()
        finally:
            with self._lock:
                self._subscribers[queue].discard(subscriber)


class _Subscriber:
    def __init__(self, buffer: int) -> None:
        self._lock = threading.Lock()
        self._buffer = buffer
        self._pending: deque[ActivityEvent | StreamGap] = deque()
        self._arrived = Wakeup()

    def push(self, events: tuple[ActivityEvent | StreamGap, ...]) -> None:
        with self._lock:
            self._pending.extend(events)
            if len(self._pending) > self._buffer:
                self._pending.clear()
                self._pending.append(StreamGap("the subscriber read too slowly"))
        self._arrived.notify()

    async def events(self) -> AsyncIterator[ActivityEvent | StreamGap]:
        while True:
            seen = self._arrived.version()
            with self._lock:
                ready, self._pending = self._pending, deque()
            for event in ready:
                yield event
            if not ready:
                await self._arrived.wait(seen, timeout=3600)
            else:
                # A stream that is never empty must not keep the loop from everybody else.
                await asyncio.sleep(0)
