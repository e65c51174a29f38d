"""Attempt: a claim while this process holds it, and why it was interrupted, if it was.

    buffered --start--> running --end--> (acknowledged)
        |                  |
        '---- interrupt(cause): timeout | claim lost | shutdown | cut off

One place decides the cause and the first one wins, so the ways an attempt can end are never confused.
"""

from __future__ import annotations

import asyncio
import time
from enum import StrEnum
from typing import TYPE_CHECKING

from runnerq.storage.records import Acknowledgement, OutcomeKind

if TYPE_CHECKING:
    from runnerq.context import ActivityContext
    from runnerq.storage.records import Claim, ErrorInfo

PATIENCE = 5
"""Interruptions a handler may swallow; with the next one it is ended by force."""


class Cause(StrEnum):
    TIMEOUT = "timeout"
    CLAIM_LOST = "claim_lost"
    """The backend said that the claim is somebody else's: nothing is to be said of it any more."""
    SHUTDOWN = "shutdown"
    CUT_OFF = "cut_off"
    """The backend may give the claim away, or has forgotten this engine: it is handed back, and the
    token decides whether it was still ours to give."""


class Attempt:
    __slots__ = (
        "cause",
        "claim",
        "context",
        "deadline",
        "interruptions",
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
        self.interruptions = 0

    @property
    def given_up(self) -> bool:
        """It was asked to end often enough."""
        return self.interruptions > PATIENCE

    def interrupt(self, cause: Cause) -> None:
        """End it early. The first cause stands; a handler that swallows the cancellation is cancelled
        again by whoever calls this again."""
        if self.cause is None:
            self.cause = cause
        self.interruptions += 1
        if self.context is not None:
            self.context.cancel()
        if self.task is not None:
            self.task.cancel()

    def ended(
        self,
        kind: OutcomeKind,
        *,
        result: bytes | None = None,
        error: ErrorInfo | None = None,
        delay_ms: int = 0,
    ) -> Acknowledgement:
        """What the backend is to be told of it."""
        ran = 0.0 if self.started is None else time.monotonic() - self.started
        return Acknowledgement(
            id=self.claim.id,
            token=self.claim.token,
            kind=kind,
            result=result,
            error=error,
            delay_ms=delay_ms,
            run_ms=round(ran * 1000),
        )
