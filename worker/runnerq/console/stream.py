"""Live stream of one queue: one backend subscription for all clients, each frame encoded once.

Two kinds of frames. Transitions of activities are numbered, kept in the ring and replayed to a client
that comes back. Topics (stats, pools, workers, decisions) are latest values: a client gets the newest
and misses nothing by skipping one. Nobody waits for a slow client: what it cannot take is dropped, and
it is told to read again.

        unwatched --first client--> listening --last client gone for a minute--> unwatched
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runnerq.console.problems import Problem, from_error
from runnerq.console.ring import ResyncReason, Ring, frame
from runnerq.console.window import Window
from runnerq.documents import encode, event_document
from runnerq.errors import RunnerQError, StorageError
from runnerq.storage.records import StreamGap

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from runnerq.console.metrics import ConsoleMetrics
    from runnerq.documents import Document
    from runnerq.storage.ports import InspectionStorage

logger = logging.getLogger(__name__)

COALESCE_SECONDS = 0.25
WINDOW_ACTIVITIES = 200
"""More than this many changed activities per window no person can follow: they become a resync."""
RING_FRAMES = 4_096
LINGER_SECONDS = 60.0
"""How long the subscription outlives its last client, so that a reload finds its place in the ring."""
CLIENT_CHUNKS = 32
"""8 s of full windows, at most about 2 MB for one client that does not read."""
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 10.0


class Client:
    """What one browser has not taken yet. Bounded; never makes the sender wait."""

    def __init__(self, *, capacity: int = CLIENT_CHUNKS) -> None:
        self._capacity = capacity
        self._frames: deque[bytes] = deque()
        self._topics: dict[str, bytes] = {}
        self._arrived = asyncio.Event()
        self._closed = False
        self.lagging = False

    def offer(self, chunk: bytes) -> bool:
        """False when the client is too slow: its frames are gone and it must be told."""
        if len(self._frames) >= self._capacity:
            self._frames.clear()
            self.lagging = True
            return False
        self._frames.append(chunk)
        self._arrived.set()
        return True

    def offer_topic(self, topic: str, chunk: bytes) -> None:
        """Replaces what is still waiting of the same topic."""
        self._topics[topic] = chunk
        self._arrived.set()

    def close(self) -> None:
        self._closed = True
        self._arrived.set()

    async def take(self, timeout: float) -> bytes | None:
        """All that waits, b"" when nothing came within `timeout` seconds, None at the end."""
        try:
            async with asyncio.timeout(timeout):
                await self._arrived.wait()
        except TimeoutError:
            return b""
        if self._closed:
            return None
        self._arrived.clear()
        chunks = [*self._frames, *self._topics.values()]
        self._frames.clear()
        self._topics.clear()
        return b"".join(chunks)


class Feed:
    """One queue's live stream. `run` is owned by the console; clients attach for as long as they like."""

    def __init__(
        self,
        backend: InspectionStorage,
        queue: str,
        metrics: ConsoleMetrics,
        *,
        coalesce_seconds: float = COALESCE_SECONDS,
        linger_seconds: float = LINGER_SECONDS,
        ring_frames: int = RING_FRAMES,
    ) -> None:
        self.queue = queue
        self.occupied = asyncio.Event()
        """Set while somebody watches."""
        self._backend = backend
        self._metrics = metrics
        self._coalesce_seconds = coalesce_seconds
        self._linger_seconds = linger_seconds
        self._ring_frames = ring_frames
        self._vacant = asyncio.Event()
        self._vacant.set()
        self._ring = self._new_ring()
        self._window = Window(limit=WINDOW_ACTIVITIES)
        self._dirty = asyncio.Event()
        self._clients: set[Client] = set()
        self._topics: dict[str, bytes] = {}
        self._down: Problem | None = None

    @contextmanager
    def attach(self, last_event_id: str | None) -> Generator[Client]:
        """A client that first gets the newest topics and, when it comes back, what it missed."""
        client = Client()
        hello = encode({"queue": self.queue, "epoch": self._ring.epoch})
        if last_event_id:
            # Its own position stands until it has what it missed, so hello carries none.
            client.offer(frame("hello", hello))
            self._replay(client, last_event_id)
        else:
            client.offer(frame("hello", hello, position=self._ring.position))
        for topic, chunk in self._topics.items():
            client.offer_topic(topic, chunk)
        self._clients.add(client)
        self._metrics.clients.inc()
        self._vacant.clear()
        self.occupied.set()
        try:
            yield client
        finally:
            self._clients.discard(client)
            self._metrics.clients.dec()
            if not self._clients:
                self.occupied.clear()
                self._vacant.set()

    def publish(self, documents: Mapping[str, Document]) -> None:
        """Push topics; one that has not changed since is not sent again."""
        for topic, document in documents.items():
            chunk = frame(topic, encode(document))
            if self._topics.get(topic) == chunk:
                continue
            self._topics[topic] = chunk
            for client in self._clients:
                client.offer_topic(topic, chunk)

    def append_point(self, document: Document) -> None:
        """Push one point of the charts: neither kept nor replayed, the series has it."""
        chunk = frame("point", encode(document))
        for client in self._clients:
            client.offer(chunk)

    def resync(self, reason: ResyncReason, detail: str = "") -> None:
        """Tell every client to read again what it shows."""
        self._metrics.resyncs.labels(reason.value).inc()
        self._send(self._ring.append("resync", _resync(reason, detail)))

    def close_clients(self) -> None:
        """End the open streams, so that a server which stops does not wait for its browsers."""
        for client in self._clients:
            client.close()

    async def run(self) -> None:
        """Listen while somebody watches; until cancelled."""
        while True:
            await self.occupied.wait()
            async with asyncio.TaskGroup() as tasks:
                listen = tasks.create_task(self._listen(), name=f"console-listen-{self.queue}")
                flush = tasks.create_task(self._flush(), name=f"console-flush-{self.queue}")
                await self._until_abandoned()
                listen.cancel()
                flush.cancel()
            # Events now pass unseen: a position in this ring would be a false promise.
            self._ring = self._new_ring()
            self._window.drain()
            if self._clients:
                self.resync(ResyncReason.RESTART)

    async def _until_abandoned(self) -> None:
        while True:
            await self._vacant.wait()
            try:
                async with asyncio.timeout(self._linger_seconds):
                    await self.occupied.wait()
            except TimeoutError:
                return

    async def _listen(self) -> None:
        delay = FIRST_DELAY_SECONDS
        while True:
            try:
                async with self._backend.event_stream(self.queue) as events:
                    self._set_backend(None)
                    delay = FIRST_DELAY_SECONDS
                    async for event in events:
                        if isinstance(event, StreamGap):
                            self.resync(ResyncReason.BACKEND_GAP, event.reason)
                        else:
                            self._window.add(event)
                            self._dirty.set()
                self._set_backend(from_error(StorageError("its event stream ended")))
            except (RunnerQError, TimeoutError) as error:
                self._set_backend(from_error(error))
            except Exception as error:
                logger.exception("the event stream of queue %r broke", self.queue)
                self._set_backend(from_error(StorageError(f"its event stream broke: {error}")))
            await asyncio.sleep(delay)
            delay = min(delay * 2, LONGEST_DELAY_SECONDS)

    def _set_backend(self, problem: Problem | None) -> None:
        was_down = self._down is not None
        self._down = problem
        if problem is not None:
            if not was_down:
                logger.warning("live stream of queue %r lost: %s", self.queue, problem)
            self.publish({"backend": {"up": False} | problem.document()})
            return
        self.publish({"backend": {"up": True}})
        if was_down:
            logger.info("live stream of queue %r is back", self.queue)
            self.resync(ResyncReason.BACKEND_GAP, "the backend was away")

    async def _flush(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(self._coalesce_seconds)
            self._dirty.clear()
            drained = self._window.drain()
            outcomes = self._metrics.events
            outcomes.labels("sent").inc(len(drained.events))
            outcomes.labels("coalesced").inc(drained.coalesced)
            outcomes.labels("dropped").inc(drained.dropped)
            self._send(
                b"".join(
                    self._ring.append("activity", encode(event_document(event, whole=False)))
                    for event in drained.events
                )
            )
            if drained.dropped:
                self.resync(ResyncReason.BURST, f"{drained.dropped} more transitions")

    def _send(self, chunk: bytes) -> None:
        if not chunk:
            return
        for client in self._clients:
            if client.lagging or not client.offer(chunk):
                self._tell_slow(client)

    def _tell_slow(self, client: Client) -> None:
        client.lagging = False
        self._metrics.resyncs.labels(ResyncReason.SLOW_CLIENT.value).inc()
        notice = _resync(ResyncReason.SLOW_CLIENT, "")
        client.offer(frame("resync", notice, position=self._ring.position))

    def _replay(self, client: Client, last_event_id: str) -> None:
        missed = self._ring.since(last_event_id)
        if isinstance(missed, ResyncReason):
            self._metrics.resyncs.labels(missed.value).inc()
            chunk = frame("resync", _resync(missed, ""), position=self._ring.position)
        else:
            chunk = b"".join(missed)
        client.offer(chunk)

    def _new_ring(self) -> Ring:
        return Ring(secrets.token_hex(4), capacity=self._ring_frames)


def _resync(reason: ResyncReason, detail: str) -> bytes:
    return encode({"reason": reason.value, "detail": detail})
