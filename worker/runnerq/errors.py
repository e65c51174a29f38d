"""Every error that crosses a public boundary, in one tree.

    RunnerQError
    ├── ConfigurationError            what was declared cannot work (at start, apply or import)
    ├── InvalidActivity               what was asked for cannot be stored (at enqueue)
    ├── DuplicateActivity             an idempotency key is taken (NoReuse)
    ├── ActivityNotFound              no such id in this queue
    ├── ClaimLost                     a handler wrote with a token that is no longer current
    ├── AcknowledgementConflict       one attempt was acknowledged twice, differently
    ├── StorageError
    │   ├── BackendUnavailable        the backend did not answer; nothing is known about its content
    │   ├── SchemaMismatch            the schema is not the one this code runs on
    │   └── CapabilityMissing         the backend declares that it cannot do this
    └── ActivityEnded                 a future whose activity has no result
        ├── ActivityFailed
        │   └── ActivityTimedOut
        ├── ActivityCancelled
        └── ResultExpired

What a *handler* raises to say how its attempt ends is in this module too: NonRetryable, Retry, Snooze.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from runnerq.storage.records import ErrorInfo


LONGEST_WAIT = timedelta(days=3660)
"""What a handler may ask for with `after`; ten years, as for every duration."""


class RunnerQError(Exception):
    """Base of everything RunnerQ raises on purpose."""


class ConfigurationError(RunnerQError):
    """A declaration that cannot work. `field` names the setting."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message if field is None else f"{field}: {message}")
        self.field = field


class InvalidActivity(RunnerQError, ValueError):
    """An activity that is refused at enqueue. `field` names what was wrong, as a path."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class DuplicateActivity(RunnerQError):
    """The idempotency key is taken and its behaviour is no_reuse. `existing_id` holds the key."""

    def __init__(self, activity_type: str, key: str, existing_id: UUID) -> None:
        super().__init__(
            f"idempotency_key: {key!r} of type {activity_type!r} is held by activity {existing_id}; "
            "use another key, or behavior='return_existing' to get that activity's future"
        )
        self.activity_type = activity_type
        self.key = key
        self.existing_id = existing_id


class ActivityNotFound(RunnerQError, LookupError):
    """No activity with this id in this queue (never enqueued, rolled back, or past its retention)."""

    def __init__(self, queue: str, activity_id: UUID) -> None:
        super().__init__(f"queue {queue!r} has no activity {activity_id}")
        self.queue = queue
        self.activity_id = activity_id


class ClaimLost(RunnerQError):
    """The claim is no longer this worker's: its lease ended and the activity was given back."""

    def __init__(self, activity_id: UUID) -> None:
        super().__init__(
            f"the claim of activity {activity_id} was lost; its attempt counts no more"
        )
        self.activity_id = activity_id


class AcknowledgementConflict(RunnerQError):
    """This attempt already ended with another outcome; the first one stands."""

    def __init__(self, activity_id: UUID) -> None:
        super().__init__(
            f"the attempt of activity {activity_id} was already acknowledged with another outcome"
        )
        self.activity_id = activity_id


class StorageError(RunnerQError):
    """The backend answered with an error that is not the caller's fault."""


class BackendUnavailable(StorageError):
    """The backend could not be reached or did not answer in time. Retry; assume nothing."""


class SchemaMismatch(StorageError):
    """The backend's schema is missing, older or newer than this code. Run `runnerq migrate up`."""


class CapabilityMissing(StorageError):
    """The backend declares that it cannot do what was asked."""

    def __init__(self, backend: str, capability: str, consequence: str) -> None:
        super().__init__(f"backend {backend!r} has no capability {capability!r}: {consequence}")
        self.backend = backend
        self.capability = capability


class ActivityEnded(RunnerQError):
    """Raised by a future whose activity ended without a result. `activity_id` tells which."""

    def __init__(self, activity_id: UUID, message: str, error: ErrorInfo | None = None) -> None:
        super().__init__(f"activity {activity_id}: {message}")
        self.activity_id = activity_id
        self.error = error


class ActivityFailed(ActivityEnded):
    """The activity failed (non-retryable) or used up its attempts; `error` is its last error."""


class ActivityTimedOut(ActivityFailed):
    """The last attempt ended because its handler exceeded the activity's timeout."""


class ActivityCancelled(ActivityEnded):
    """The activity was cancelled."""


class ResultExpired(ActivityEnded):
    """The activity completed, but its result is past the retention."""


class NonRetryable(RunnerQError):
    """Raise in a handler: this attempt failed and no other could succeed."""


class Retry(RunnerQError):
    """Raise in a handler: try again, after `after` (seconds or timedelta) if given.

    The attempt counts. Without `after` the retry policy's backoff applies.
    """

    def __init__(self, message: str = "", *, after: float | timedelta | None = None) -> None:
        super().__init__(message or "retry requested by the handler")
        self.after = None if after is None else _wait(after)


class Snooze(RunnerQError):
    """Raise in a handler: not now, come back in `after` (seconds or timedelta). Costs no attempt."""

    def __init__(self, after: float | timedelta, message: str = "") -> None:
        super().__init__(message or "snoozed by the handler")
        self.after = _wait(after)


def _wait(after: float | timedelta) -> timedelta:
    """Between now and `LONGEST_WAIT`. Raises InvalidActivity for what is no duration."""
    if isinstance(after, timedelta):
        return min(max(after, timedelta(0)), LONGEST_WAIT)
    nan = isinstance(after, float) and math.isnan(after)
    if nan or not isinstance(after, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidActivity("after", f"{after!r} is not a number of seconds or a timedelta")
    # Bounded before it becomes a timedelta, which holds only so much.
    return timedelta(seconds=min(max(after, 0), LONGEST_WAIT.total_seconds()))
