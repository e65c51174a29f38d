"""What a handler knows of the attempt it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from uuid import UUID

    from runnerq.durations import Duration
    from runnerq.executor import ActivityExecutor
    from runnerq.storage.records import Claim


class LeaseKeeper(Protocol):
    """How a context extends its claim; given by the engine."""

    async def extend(self, claim: Claim, by: Duration) -> None: ...


class ActivityContext:
    """One attempt of one activity. Valid while the handler runs.

    `cancelled` may be read from any thread: long sync handlers look at it now and then.
    """

    __slots__ = ("_cancelled", "_claim", "_keeper", "executor")

    def __init__(self, claim: Claim, executor: ActivityExecutor, keeper: LeaseKeeper) -> None:
        self._claim = claim
        self._keeper = keeper
        # A plain flag is enough across threads, and an Event per attempt costs 7 us.
        self._cancelled = False
        self.executor = executor
        """Enqueue further activities from here."""

    @property
    def activity_id(self) -> UUID:
        return self._claim.id

    @property
    def activity_type(self) -> str:
        return self._claim.type

    @property
    def queue(self) -> str:
        return self._claim.queue

    @property
    def attempt(self) -> int:
        """1 for the first run."""
        return self._claim.attempt

    @property
    def max_attempts(self) -> int:
        """Runs in all; 0 = no limit."""
        return self._claim.max_attempts

    @property
    def created_at(self) -> datetime:
        return self._claim.created_at

    @property
    def deadline(self) -> datetime:
        """When the claim ends, on the backend's clock."""
        return self._claim.deadline

    @property
    def headers(self) -> Mapping[str, str]:
        return self._claim.headers

    @property
    def metadata(self) -> dict[str, Any]:
        """For log records: `logger.info(..., extra=ctx.metadata)`."""
        return {
            "activity_id": str(self._claim.id),
            "activity_type": self._claim.type,
            "attempt": self._claim.attempt,
        }

    @property
    def cancelled(self) -> bool:
        """True once the attempt has ended for the engine: timeout, claim lost, or shutdown."""
        return self._cancelled

    def cancel(self) -> None:
        """Called by the engine."""
        self._cancelled = True

    async def extend(self, by: Duration) -> None:
        """Move the claim's deadline to now + `by` (seconds or timedelta). Raises ClaimLost."""
        await self._keeper.extend(self._claim, by)
