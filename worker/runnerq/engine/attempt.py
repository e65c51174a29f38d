"""Attempt: a claim while this process holds it, and why it was interrupted, if it was.

    buffered --start--> running --end--> (acknowledged)
        |                  |
        '---- interrupt(cause): timeout | claim lost | shutdown

One place decides the cause and the first one wins, so the ways an attempt can end are never confused.
"""

from __future__ import annotations

import asyncio
import time
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runnerq.context import ActivityContext
    from runnerq.storage.records import Claim


class Cause(StrEnum):
    TIMEOUT = "timeout"
    CLAIM_LOST = "claim_lost"
    SHUTDOWN = "shutdown"


class Attempt:
    __slots__ = (
        "cause",
        "claim",
        "context",
        "deadline",
        "received",
        "started",
        "task",
    )

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.received = time.monotonic()
        self.started: float | None = None
        """Monotonic seconds when the handler began."""
        self.deadline: float | None = None
        """Monotonic seconds of the timeout, while the handler runs."""
        self.task: asyncio.Task[None] | None = None
        """The runner that may be cancelled, while the handler can be interrupted."""
        self.context: ActivityContext | None = None
        self.cause: Cause | None = None

    def interrupt(self, cause: Cause) -> None:
        """End it early. The first cause stands; a handler that swallows the cancellation is cancelled
        again by whoever calls this again."""
        if self.cause is None:
            self.cause = cause
        if self.context is not None:
            self.context.cancel()
        if self.task is not None:
            self.task.cancel()
