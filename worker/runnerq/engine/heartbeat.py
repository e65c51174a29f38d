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

from runnerq.errors import StorageError
from runnerq.storage.records import Heartbeat, TypeCounters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from runnerq.engine.config import EngineConfig
    from runnerq.storage.ports import QueueStorage
    from runnerq.storage.records import EngineState, HeartbeatReply

log = logging.getLogger(__name__)


class HeartbeatListener(Protocol):
    """Called on the event loop."""

    def heartbeat_answered(self, reply: HeartbeatReply, *, silent_for: float) -> None:
        """`silent_for`: seconds since the answer before this one."""
        ...

    def heartbeat_failed(self, error: str, *, silent_for: float) -> None: ...


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
        self._thread: threading.Thread | None = None
        self._last_answer = time.monotonic()

    @property
    def silent_for(self) -> float:
        """Seconds since the backend last answered a heartbeat."""
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
        # The thread may be inside a backend call, which is bounded by the backend's own timeouts.
        await asyncio.to_thread(thread.join, 10.0)

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stop.is_set():
            started = time.monotonic()
            self._beat(loop)
            # Failed beats are repeated sooner: the engine has little time until it is taken for dead.
            pause = self._config.heartbeat_interval
            if self._last_answer < started:
                pause /= 5
            self._wake.wait(max(0.0, pause - (time.monotonic() - started)))
            self._wake.clear()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        state, busy, counters = self._status()
        beat = Heartbeat(engine_id=self._engine_id, state=state, busy=busy, counters=counters)
        silent_for = self.silent_for
        try:
            reply = self._storage.heartbeat_blocking(self._config.queue_name, beat)
        except StorageError as error:
            message = str(error)
            self._tell(
                loop, lambda: self._listener.heartbeat_failed(message, silent_for=silent_for)
            )
            return
        self._last_answer = time.monotonic()
        self._tell(loop, lambda: self._listener.heartbeat_answered(reply, silent_for=silent_for))

    def _tell(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            log.debug("the event loop is closed; the heartbeat ends")
            self._stop.set()
