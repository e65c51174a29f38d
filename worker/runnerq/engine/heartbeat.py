"""Heartbeat: says every few seconds that this process lives, from a thread of its own.

The thread has its own connection and does not need the event loop, so a handler that blocks the loop
does not make the engine look dead. What the loop must do about an answer (or about none) is handed to
it: cordon, revalidate claims, give up claims before others may take them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

from runnerq.storage.records import Heartbeat, TypeCounters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from runnerq.engine.config import EngineConfig
    from runnerq.storage.ports import QueueStorage
    from runnerq.storage.records import EngineState, HeartbeatReply

log = logging.getLogger(__name__)

STOP_PATIENCE = 10.0
"""Seconds `stop` waits for a beat that is under way."""


class HeartbeatListener(Protocol):
    """Called on the event loop."""

    def heartbeat_answered(self, reply: HeartbeatReply) -> None: ...

    def heartbeat_failed(self, error: str) -> None: ...


class HeartbeatThread:
    def __init__(
        self,
        *,
        storage: QueueStorage,
        config: EngineConfig,
        engine_id: UUID,
        listener: HeartbeatListener,
        status: Callable[[], tuple[EngineState, int, Mapping[str, TypeCounters]]],
    ) -> None:
        self._storage = storage
        self._config = config
        self._engine_id = engine_id
        self._listener = listener
        self._status = status
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._ended = asyncio.Event()
        self._thread: threading.Thread | None = None
        self._last_answer = time.monotonic()

    @property
    def silent_for(self) -> float:
        """Seconds since the last heartbeat that the backend answered was sent."""
        return time.monotonic() - self._last_answer

    def start(self) -> None:
        self._last_answer = time.monotonic()
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name="runnerq-heartbeat", daemon=True
        )
        self._thread.start()

    def beat_now(self) -> None:
        """Do not wait for the next turn: the state changed."""
        self._wake.set()

    async def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stop.set()
        self._wake.set()
        try:
            async with asyncio.timeout(STOP_PATIENCE):
                await self._ended.wait()
        except TimeoutError:
            # It is inside a backend call, which is bounded by the backend's own timeouts.
            log.warning("the heartbeat's thread is left behind in a call to the backend")
        else:
            thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            # Failed beats are repeated sooner: the engine has little time until it is taken for dead.
            pause = self._config.heartbeat_interval / (1 if self._beat(loop) else 5)
            self._wake.wait(max(0.0, pause - (time.monotonic() - started)))
            self._wake.clear()
        self._tell(loop, self._ended.set)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> bool:
        sent = time.monotonic()
        try:
            state, busy, counters = self._status()
            beat = Heartbeat(engine_id=self._engine_id, state=state, busy=busy, counters=counters)
            reply = self._storage.heartbeat_blocking(self._config.queue_name, beat)
        except Exception as error:  # noqa: BLE001 - whatever it is, a thread that dies of it looks like a dead engine
            message = f"{type(error).__name__}: {error}"
            self._tell(loop, lambda: self._listener.heartbeat_failed(message))
            return False
        # The backend counts from when it got the beat, which is not before it was sent.
        self._last_answer = sent
        self._tell(loop, lambda: self._listener.heartbeat_answered(reply))
        return True

    def _tell(self, loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            log.debug("the event loop is closed; the heartbeat ends")
            self._stop.set()
