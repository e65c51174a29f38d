"""ActivityFuture: the end of an activity, awaited from any process that knows its id.

Waits are pushed by the backend where it can push; an unreachable backend is waited for, not reported
as an outcome.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from runnerq.errors import (
    ActivityCancelled,
    ActivityFailed,
    ActivityTimedOut,
    BackendUnavailable,
    DuplicateActivity,
    ResultExpired,
)
from runnerq.storage.records import ActivityState, EnqueueStatus, ErrorKind

if TYPE_CHECKING:
    from collections.abc import Generator
    from uuid import UUID

    from runnerq.durations import Duration
    from runnerq.payload import Decoder
    from runnerq.storage.ports import ResultStorage
    from runnerq.storage.records import ActivityResult

R = TypeVar("R")
log = logging.getLogger(__name__)

WAIT_SLICE = 30.0
"""Seconds one backend wait lasts at most, so that a lost push is noticed."""

LONGEST_PAUSE = 2.0


class ActivityFuture(Generic[R]):
    """Await it for the result. May be awaited many times, and by several tasks."""

    def __init__(
        self,
        storage: ResultStorage,
        queue: str,
        activity_id: UUID,
        *,
        decoder: Decoder[Any],
        status: EnqueueStatus = EnqueueStatus.EXISTING,
        duplicate_of: tuple[str, str] | None = None,
    ) -> None:
        self.id = activity_id
        self.queue = queue
        self.status = status
        """What the enqueue did: created, existing or duplicate."""
        self._storage = storage
        self._decoder = decoder
        self._duplicate_of = duplicate_of

    def __repr__(self) -> str:
        return f"<ActivityFuture {self.id} in {self.queue!r}>"

    def __await__(self) -> Generator[Any, None, R]:
        return self.get_result().__await__()

    async def get_result(self, timeout: Duration | None = None) -> R:
        """The activity's result, waiting for its end.

        `timeout`: seconds or timedelta; None waits for ever. Raises TimeoutError when it is over,
        ActivityFailed, ActivityTimedOut or ActivityCancelled when there is no result, ResultExpired
        when it is no longer kept, ActivityNotFound for an unknown id.
        """
        if self._duplicate_of is not None:
            raise DuplicateActivity(*self._duplicate_of, self.id)
        return self._read(await self._wait(timeout))

    async def done(self) -> bool:
        """Whether it has ended, in whatever way. Raises ActivityNotFound, BackendUnavailable."""
        return await self._storage.get_result(self.queue, self.id) is not None

    async def _wait(self, timeout: Duration | None) -> ActivityResult:
        seconds = timeout if isinstance(timeout, int | float | None) else timeout.total_seconds()
        deadline = None if seconds is None else time.monotonic() + seconds
        pause = 0.1
        while True:
            left = WAIT_SLICE if deadline is None else min(WAIT_SLICE, deadline - time.monotonic())
            try:
                ended = await self._storage.wait_for_result(self.queue, self.id, max(left, 0))
                pause = 0.1
            except BackendUnavailable as error:
                if deadline is not None and time.monotonic() + pause >= deadline:
                    raise
                log.warning("waiting for activity %s: %s", self.id, error)
                ended = None
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            if ended is not None:
                return ended
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"activity {self.id} has not ended within {seconds:g} s")

    def _read(self, ended: ActivityResult) -> R:
        match ended.state:
            case ActivityState.COMPLETED if ended.result is not None:
                return cast("R", self._decoder.decode(ended.result, field="result"))
            case ActivityState.COMPLETED:
                raise ResultExpired(self.id, "completed, but its result is no longer kept")
            case ActivityState.CANCELLED:
                raise ActivityCancelled(self.id, "was cancelled", ended.error)
            case _:
                pass
        error = ended.error
        ending = "used up its attempts" if ended.state is ActivityState.DEAD_LETTER else "failed"
        message = ending if error is None else f"{ending}: {error.type}: {error.message}"
        kind = ActivityFailed
        if error is not None and error.kind is ErrorKind.TIMEOUT:
            kind = ActivityTimedOut
        raise kind(self.id, message, error)
