"""An activity's timeline: what was stored of it, completed by what its row tells. Pure.

Stored are the ends that a row forgets: failed attempts that were retried, snoozes, hand-backs, lost
claims, operator actions. Creation, the last claim and the final state are read from the row. A stored
event that ends an attempt carries that attempt's claim and due time in its detail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnerq.clock import instant
from runnerq.storage.records import ActivityEvent, ActivityState, EventKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from runnerq.storage.records import ActivitySnapshot

CLAIMED_AT_MS = "claimed_at_ms"
READY_AT_MS = "ready_at_ms"

_ENDS = {
    ActivityState.COMPLETED: EventKind.COMPLETED,
    ActivityState.FAILED: EventKind.FAILED,
    ActivityState.DEAD_LETTER: EventKind.DEAD_LETTERED,
}


def timeline(row: ActivitySnapshot, stored: Sequence[ActivityEvent]) -> list[ActivityEvent]:
    """Oldest first; `stored` in the order in which it happened."""
    steps = [_created(row, stored)]
    for event in stored:
        claimed_ms = event.detail.get(CLAIMED_AT_MS)
        if isinstance(claimed_ms, int):
            steps.append(_claimed(row, instant(claimed_ms), event.attempt, event.worker_id))
        steps.append(event)
    if row.claimed_at is not None and _last_claim_is_untold(row, stored):
        steps.append(_claimed(row, row.claimed_at, row.attempt, row.worker_id))
    if row.status in _ENDS and row.finished_at is not None:
        steps.append(
            ActivityEvent(
                activity_id=row.id,
                kind=_ENDS[row.status],
                at=row.finished_at,
                type=row.type,
                state=row.status,
                attempt=row.attempt,
                worker_id=row.worker_id,
                error=row.error,
            )
        )
    return steps


def _created(row: ActivitySnapshot, stored: Sequence[ActivityEvent]) -> ActivityEvent:
    # The row's due time moves with retries; the first stored event remembers the one asked for.
    first_ready = stored[0].detail.get(READY_AT_MS) if stored else None
    ready_at = instant(first_ready) if isinstance(first_ready, int) else row.ready_at
    later = ready_at > row.created_at
    return ActivityEvent(
        activity_id=row.id,
        kind=EventKind.SCHEDULED if later else EventKind.ENQUEUED,
        at=row.created_at,
        type=row.type,
        state=ActivityState.SCHEDULED if later else ActivityState.PENDING,
    )


def _last_claim_is_untold(row: ActivitySnapshot, stored: Sequence[ActivityEvent]) -> bool:
    if row.status is ActivityState.PROCESSING:
        return True
    if not row.status.terminal:
        return False  # it waits again, and what ended its attempt is stored
    return not (stored and stored[-1].kind is EventKind.CLAIM_LOST)


def _claimed(
    row: ActivitySnapshot, at: datetime, attempt: int, worker_id: str | None
) -> ActivityEvent:
    return ActivityEvent(
        activity_id=row.id,
        kind=EventKind.CLAIMED,
        at=at,
        type=row.type,
        state=ActivityState.PROCESSING,
        attempt=attempt,
        worker_id=worker_id,
    )
