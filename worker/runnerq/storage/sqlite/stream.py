"""The live stream over the file: transitions of all processes, recorded only while somebody watches.

A watch is a row that writers look for; it is renewed while it lasts, and lapses when its process dies.
Where transitions may have been lost, subscribers get a StreamGap instead of silence.
"""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from runnerq.clock import SystemClock
from runnerq.errors import BackendUnavailable
from runnerq.storage.broadcast import Broadcast
from runnerq.storage.sqlite.encoding import decode_event

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from runnerq.storage.records import ActivityEvent, StreamGap
    from runnerq.storage.sqlite.session import Session, Transaction
    from runnerq.storage.sqlite.writer import Writer

_WATCH_MS = 30_000
_RENEW_MS = 5_000
_KEPT_MS = 60_000
_PAGE = 1_000


@dataclass(slots=True)
class _Watch:
    queue: str
    id: UUID
    renewed_ms: int
    subscribers: int = 1


class LiveStream:
    def __init__(self, writer: Callable[[], Writer]) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._broadcast = Broadcast()
        self._watches: dict[str, _Watch] = {}
        self._position: int | None = None
        """The last number read; None while nobody watches."""

    @property
    def open(self) -> bool:
        return bool(self._watches)

    @asynccontextmanager
    async def subscribe(
        self, queue: str
    ) -> AsyncGenerator[AsyncIterator[ActivityEvent | StreamGap]]:
        async with self._broadcast.subscribe(queue) as events:
            watch = self._joined(queue)
            try:
                # Once this is committed every process records what it does to the queue.
                position = await self._writer().run(lambda tx: _renew(tx, watch))
                with self._lock:
                    if self._position is None:
                        self._position = position
                yield events
            finally:
                if self._left(watch):
                    # A backend that was closed meanwhile leaves a watch that lapses by itself.
                    with suppress(BackendUnavailable):
                        await self._writer().run(lambda tx: _end(tx, watch))

    def _joined(self, queue: str) -> _Watch:
        with self._lock:
            watch = self._watches.get(queue)
            if watch is None:
                watch = _Watch(queue, uuid4(), SystemClock().now_ms())
                self._watches[queue] = watch
            else:
                watch.subscribers += 1
            return watch

    def _left(self, watch: _Watch) -> bool:
        """True for the last subscriber of its queue."""
        with self._lock:
            watch.subscribers -= 1
            if watch.subscribers:
                return False
            del self._watches[watch.queue]
            if not self._watches:
                self._position = None
            return True

    def deliver(self, session: Session) -> None:
        """Hand on what was recorded since the last time. Called from the watcher's thread."""
        with self._lock:
            position = self._position
        while position is not None:
            rows = session.rows("transitions_after", position=position, limit=_PAGE)
            if rows and rows[0]["seq"] != position + 1:
                self._gap("transitions were dropped before they were read")
            for row in rows:
                self._broadcast.publish(row["queue"], [decode_event(row["event"])])
            if rows:
                position = rows[-1]["seq"]
            with self._lock:
                if self._position is None:
                    return
                self._position = position
            if len(rows) < _PAGE:
                return

    def renew(self, session: Session) -> None:
        """Keep the watches in force. Called from the watcher's thread, at every poll."""
        now_ms = SystemClock().now_ms()
        with self._lock:
            due = [w for w in self._watches.values() if now_ms - w.renewed_ms >= _RENEW_MS]
        for watch in due:
            if session.row("watch_lapsed", watcher=watch.id.bytes, now_ms=now_ms) is not None:
                self._broadcast.gap(watch.queue, "this process was too slow to keep watching")
            watch.renewed_ms = now_ms
            self._writer().submit(lambda tx, watch=watch: _renew(tx, watch))

    def _gap(self, reason: str) -> None:
        with self._lock:
            queues = list(self._watches)
        for queue in queues:
            self._broadcast.gap(queue, reason)


def _renew(tx: Transaction, watch: _Watch) -> int:
    """Renew the watch, drop what is past its minute; the last number given out."""
    now_ms = SystemClock().now_ms()
    tx.change("watch_renew", watcher=watch.id.bytes, queue=watch.queue, until_ms=now_ms + _WATCH_MS)
    tx.change("transitions_prune", before_ms=now_ms - _KEPT_MS)
    position = tx.row("transitions_position")
    return 0 if position is None else int(position["position"])


def _end(tx: Transaction, watch: _Watch) -> None:
    tx.change("watch_end", watcher=watch.id.bytes, now_ms=SystemClock().now_ms())
