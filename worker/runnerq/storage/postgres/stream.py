"""The live stream: transitions are published only while somebody watches, and never slow a call down.

Who watches a queue keeps a row fresh; every process looks at these rows at most twice a second, when it
has transitions to tell. So a watcher waits once, on entering, until all others must know of it. Too many
transitions at once become a gap, after which the watcher reads its lists again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from runnerq.clock import instant, milliseconds
from runnerq.errors import StorageError
from runnerq.storage.broadcast import Broadcast
from runnerq.storage.postgres.background import Background
from runnerq.storage.postgres.codes import EVENT_CODE, EVENT_OF, STATE_CODE, STATE_OF
from runnerq.storage.postgres.connections import CONNECT_SECONDS
from runnerq.storage.records import ActivityEvent, ErrorInfo, ErrorKind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence

    from runnerq.storage.postgres.connections import Database
    from runnerq.storage.postgres.names import Names
    from runnerq.storage.postgres.signals import Signals
    from runnerq.storage.records import StreamGap

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5
"""How long what was read about watchers is believed."""
_LOOK_TIMEOUT_SECONDS = 1.0
"""The caller's work is done already: it is not kept waiting for the sake of watchers."""
_FRESH_MS = 10_000
_REFRESH_SECONDS = 3.0
_MOST_PER_SECOND = 5_000
"""Transitions published by one process. Beyond, nobody could read them on a screen anyway."""
_MESSAGE_LENGTH = 300
_GAP = "gap"


class _Told(msgspec.Struct, array_like=True):
    """A transition as it travels: short, for thousands of them must fit."""

    queue_id: int
    id: UUID
    kind: int
    at_ms: int
    type: str
    state: int
    attempt: int
    worker: str | None = None
    error: tuple[str, str, str] | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Told).decode


class Stream:
    def __init__(self, database: Database, names: Names, signals: Signals) -> None:
        self._database = database
        self._names = names
        self._signals = signals
        self._local = Broadcast()
        self._watching: Counter[str] = Counter()
        self._queues: dict[int, str] = {}
        self._background = Background("runnerq-watch", self._keep_watching)
        self._watched_until: dict[int, float] = {}
        self._looked_at = float("-inf")
        self._window = (0.0, 0)
        """Start of the current second, and how many transitions it has carried."""

    async def stop(self) -> None:
        await self._background.stop()

    async def publish(
        self, queue: str, queue_id: int, events: Callable[[], Awaitable[list[ActivityEvent]]]
    ) -> None:
        """Tell the watchers, if there are any. `events` is only asked if so. Never raises."""
        elsewhere = await self._watched(queue_id)
        if not elsewhere and not self._local.watched(queue):
            return
        try:
            told = await events()
        except StorageError as error:
            self._local.gap(queue, f"transitions could not be read: {error}")
            return
        self._local.publish(queue, told)
        if elsewhere and not self._database.pooled:
            self._send(queue_id, told)

    @asynccontextmanager
    async def subscribe(
        self, queue: str
    ) -> AsyncGenerator[AsyncIterator[ActivityEvent | StreamGap]]:
        queue_id = await self._names.queue(queue)
        self._queues[queue_id] = queue
        listener, channel = self._signals.listener, self._signals.channels.transitions
        listener.subscribe(channel, self)
        self._watching[queue] += 1
        try:
            async with self._local.subscribe(queue) as events:
                await self._refresh(queue_id)
                self._background.start()
                if not self._database.pooled:
                    # Until then another process may still believe that nobody watches.
                    await asyncio.sleep(_LOOK_SECONDS)
                    if not await listener.ready(channel, CONNECT_SECONDS):
                        self._local.gap(queue, "transitions of other processes do not arrive yet")
                yield events
        finally:
            self._watching[queue] -= 1

    def heard(self, lines: Sequence[str]) -> None:
        for line in lines:
            if line.startswith(_GAP):
                queue = self._queues.get(int(line.removeprefix(_GAP)))
                if queue is not None:
                    self._local.gap(queue, "more transitions than can be sent")
                continue
            told = _decode(line)
            queue = self._queues.get(told.queue_id)
            if queue is not None and self._watching[queue]:
                self._local.publish(queue, (_event(told),))

    def listening(self) -> None:
        """`subscribe` waits for it."""

    def missed(self) -> None:
        self._gap("the connection to the database was lost")

    def _gap(self, reason: str) -> None:
        for queue, watchers in self._watching.items():
            if watchers:
                self._local.gap(queue, reason)

    def _send(self, queue_id: int, events: list[ActivityEvent]) -> None:
        now = asyncio.get_running_loop().time()
        start, carried = self._window
        if now - start >= 1.0:
            start, carried = now, 0
        room = max(0, _MOST_PER_SECOND - carried)
        self._window = (start, carried + len(events))
        lines = [_line(queue_id, event) for event in events[:room]]
        if len(events) > room:
            lines.append(f"{_GAP}{queue_id}")
        self._signals.notifier.add(self._signals.channels.transitions, lines)

    async def _watched(self, queue_id: int) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= _LOOK_SECONDS:
            self._looked_at = now
            try:
                async with asyncio.timeout(_LOOK_TIMEOUT_SECONDS):
                    rows = await self._database.fetch("watched", repeatable=False)
            except (StorageError, TimeoutError) as error:
                # The caller's work is committed; a watcher that misses it is told by its own connection.
                _log.debug("could not look who watches: %s", error)
            else:
                self._watched_until = {row["queue_id"]: now + row["ms"] / 1000 for row in rows}
        return self._watched_until.get(queue_id, 0.0) > now

    async def _refresh(self, queue_id: int) -> None:
        await self._database.fetch("watch", queue_id, _FRESH_MS)

    async def _keep_watching(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            if self._database.pooled:
                self._gap("transitions of other processes do not come through a pooler")
            for queue_id, queue in self._queues.items():
                if self._watching[queue]:
                    try:
                        await self._refresh(queue_id)
                    except StorageError as error:
                        _log.debug("could not say that queue %s is watched: %s", queue, error)


def _line(queue_id: int, event: ActivityEvent) -> str:
    error = event.error
    told = _Told(
        queue_id=queue_id,
        id=event.activity_id,
        kind=EVENT_CODE[event.kind],
        at_ms=milliseconds(event.at),
        type=event.type,
        state=0 if event.state is None else STATE_CODE[event.state],
        attempt=event.attempt,
        worker=event.worker_id,
        error=error and (error.kind.value, _short(error.type), _short(error.message)),
    )
    return _encode(told).decode()


def _short(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:_MESSAGE_LENGTH]


def _event(told: _Told) -> ActivityEvent:
    return ActivityEvent(
        activity_id=told.id,
        kind=EVENT_OF[told.kind],
        at=instant(told.at_ms),
        type=told.type,
        state=STATE_OF.get(told.state),
        attempt=told.attempt,
        worker_id=told.worker,
        error=told.error
        and ErrorInfo(kind=ErrorKind(told.error[0]), type=told.error[1], message=told.error[2]),
    )
