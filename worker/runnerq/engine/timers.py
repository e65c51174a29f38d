"""Timers: one timer for the timeouts of all running attempts.

A timer per attempt costs 10-17 us each (asyncio.timeout, wait_for); here a start costs a comparison,
and the loop is woken only at the earliest deadline. Exact to the event loop's resolution.
"""

from __future__ import annotations

import asyncio
import time

from runnerq.engine.attempt import Attempt, Cause

AGAIN = 1.0
"""Seconds until a handler that swallowed its cancellation is cancelled again."""


class Timers:
    """Watches the running attempts of one engine."""

    def __init__(self) -> None:
        self._running: set[Attempt] = set()
        self._handle: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def __len__(self) -> int:
        return len(self._running)

    def started(self, attempt: Attempt) -> None:
        """The handler begins now: its timeout runs from here."""
        now = time.monotonic()
        attempt.started = now
        attempt.deadline = now + attempt.claim.timeout_ms / 1000
        self._running.add(attempt)
        if attempt.deadline < self._next:
            self._arm(attempt.deadline)

    def ended(self, attempt: Attempt) -> None:
        self._running.discard(attempt)
        attempt.deadline = None

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._next = float("inf")

    def _arm(self, deadline: float) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._next = deadline
        delay = max(0.0, deadline - time.monotonic())
        self._handle = asyncio.get_running_loop().call_later(delay, self._fire)

    def _fire(self) -> None:
        self._handle, self._next = None, float("inf")
        now = time.monotonic()
        earliest = float("inf")
        for attempt in tuple(self._running):
            if attempt.deadline is None:
                continue
            if attempt.deadline <= now:
                attempt.deadline = now + AGAIN
                attempt.interrupt(Cause.TIMEOUT)
            earliest = min(earliest, attempt.deadline)
        if earliest < float("inf"):
            self._arm(earliest)
