"""Slots: the resident runner tasks of an engine and the claims waiting for one.

    deliver(claims) -> buffer -> runner -> ended(attempt, acknowledgement)

The engine never holds more claims than it has slots: what it cannot run now is better left to another
process.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from runnerq.engine.attempt import Attempt, Cause
from runnerq.failure import describe
from runnerq.storage.records import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runnerq.engine.run import Runner
    from runnerq.storage.records import Acknowledgement, Claim

    AttemptEnd = Callable[[Attempt, Acknowledgement | None], None]

log = logging.getLogger(__name__)

CLOSE_PATIENCE = 2.0
"""Seconds `close` waits for runners whose handlers cling to a task that ignores its cancellation."""


class Slots:
    """`count` runners. `on_end` receives every attempt's end on the loop and must not block."""

    def __init__(self, count: int, runner: Runner, on_end: AttemptEnd) -> None:
        self.count = count
        self._runner = runner
        self._on_end = on_end
        self._buffer: deque[Attempt] = deque()
        self._held: dict[Attempt, None] = {}
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._beginning = True
        self._freed = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def busy(self) -> int:
        """Claims held, running or buffered."""
        return len(self._held)

    @property
    def free(self) -> int:
        return self.count - len(self._held)

    @property
    def held(self) -> tuple[Attempt, ...]:
        return tuple(self._held)

    def start(self) -> None:
        for number in range(self.count):
            self._tasks.append(asyncio.create_task(self._run(), name=f"runnerq-slot-{number}"))

    def deliver(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            attempt = Attempt(claim)
            self._held[attempt] = None
            self._buffer.append(attempt)
            self._quiet.clear()
            self._wake_one()

    def begin_no_more(self) -> None:
        """What no runner has begun stays in the buffer from now on, for `take_back`."""
        self._beginning = False

    def take_back(self) -> list[Attempt]:
        """The claims no runner has begun; they are no longer held here."""
        waiting = list(self._buffer)
        self._buffer.clear()
        for attempt in waiting:
            self._forget(attempt)
        return waiting

    def interrupt(self, cause: Cause, attempts: Iterable[Attempt] | None = None) -> None:
        """End attempts early: all, or the given ones. Unbegun ones end at once."""
        chosen = self.held if attempts is None else tuple(attempts)
        unbegun = set(self._buffer)
        for attempt in chosen:
            if attempt in unbegun:
                self._buffer.remove(attempt)
                attempt.cause = cause
                lost = cause is Cause.CLAIM_LOST
                self._end(attempt, None if lost else attempt.ended(OutcomeKind.RELEASED))
            elif attempt in self._held:
                attempt.interrupt(cause)

    async def wait_free(self) -> None:
        """Until at least one slot is free."""
        while self.free <= 0:
            self._freed.clear()
            await self._freed.wait()

    async def wait_quiet(self) -> None:
        """Until nothing is held."""
        await self._quiet.wait()

    async def close(self) -> None:
        """End the runner tasks. Attempts still running are cut off: their claims stay with the
        backend, which takes them back when this engine is retired."""
        self._runner.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            _, clinging = await asyncio.wait(self._tasks, timeout=CLOSE_PATIENCE)
            if clinging:
                log.error("%d handlers wait for tasks that ignore cancellation", len(clinging))
        self._tasks.clear()

    async def _run(self) -> None:
        # Asked each time: a handler may have swallowed the cancellation by which `close` ends this.
        while not self._runner.closing:
            try:
                if self._buffer and self._beginning:
                    await self._run_one(self._buffer.popleft())
                else:
                    await self._wait_for_work()
            except asyncio.CancelledError:
                if self._runner.closing:
                    raise
                log.warning("a runner was cancelled by something a handler left behind; it goes on")
            except Exception:
                # A slot must not be lost for a fault of ours.
                log.exception("a runner failed; it goes on")

    async def _run_one(self, attempt: Attempt) -> None:
        try:
            outcome = await self._runner.attempt(attempt)
        except Exception as error:
            # Not the handler's own fault, but the activity must not be lost for it.
            log.exception("attempt of %s could not be run", attempt.claim.id)
            outcome = attempt.ended(OutcomeKind.RETRIED, error=describe(error), delay_ms=1000)
        self._end(attempt, outcome)

    async def _wait_for_work(self) -> None:
        wake = asyncio.get_running_loop().create_future()
        self._idle.append(wake)
        try:
            await wake
        finally:
            if wake.cancelled():
                self._idle = deque(item for item in self._idle if item is not wake)

    def _wake_one(self) -> None:
        while self._idle:
            wake = self._idle.popleft()
            if not wake.done():
                wake.set_result(None)
                return

    def _end(self, attempt: Attempt, outcome: Acknowledgement | None) -> None:
        self._forget(attempt)
        self._on_end(attempt, outcome)

    def _forget(self, attempt: Attempt) -> None:
        self._held.pop(attempt, None)
        self._freed.set()
        if not self._held:
            self._quiet.set()
