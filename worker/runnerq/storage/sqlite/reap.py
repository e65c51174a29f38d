"""Taking work back from owners that are gone, and back out of the dead letter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnerq.failure import worker_lost
from runnerq.retry import attempts_remain
from runnerq.storage.records import ActivityState, EventKind, Reaped
from runnerq.storage.sqlite.encoding import (
    attempt_detail,
    decode_error,
    decode_event,
    encode_error,
    event_of,
    id_of,
)

if TYPE_CHECKING:
    import sqlite3
    from uuid import UUID

    from runnerq.storage.sqlite.session import Transaction

_SILENT_ENGINES_KEPT_MS = 3_600_000
"""Long after their work was taken back; until then people can still see who is missing."""


def reap(tx: Transaction, queue: str, *, limit: int, liveness_ms: int) -> list[Reaped]:
    rows = tx.rows("reapable", queue=queue, limit=max(0, limit), liveness_ms=liveness_ms)
    reaped = [_take_back(tx, queue, row) for row in rows]
    tx.change("engines_prune", queue=queue, before_ms=tx.now_ms - _SILENT_ENGINES_KEPT_MS)
    return reaped


def _take_back(tx: Transaction, queue: str, row: sqlite3.Row) -> Reaped:
    error = worker_lost(row["attempt"])
    again = attempts_remain(row["max_attempts"], row["attempt"] - 1)
    activity_id = id_of(row["id"])
    state = ActivityState.PENDING if again else ActivityState.DEAD_LETTER
    lost = event_of(
        row,
        EventKind.CLAIM_LOST,
        tx.now_ms,
        state,
        activity_id=activity_id,
        error=error,
        detail=attempt_detail(row),
    )
    if again:
        tx.change(
            "put_back",
            row_id=row["row_id"],
            state=state,
            due_ms=tx.now_ms,
            attempt=row["attempt"],
            error=encode_error(error),
            acked_token=None,
            acked_digest=None,
            acked_state=None,
        )
        tx.keep(queue, lost)
        return Reaped(
            id=activity_id, type=row["type"], attempt=row["attempt"], state=state, error=error
        )
    tx.change(
        "history_insert",
        row_id=row["row_id"],
        state=state,
        result=None,
        result_codec="json",
        error=encode_error(error),
        acked_token=None,
        acked_digest=None,
    )
    tx.change("live_delete", row_id=row["row_id"])
    tx.keep(queue, lost)
    dead = event_of(
        row, EventKind.DEAD_LETTERED, tx.now_ms, state, activity_id=activity_id, error=error
    )
    tx.transition(queue, dead)
    return Reaped(
        id=activity_id,
        type=row["type"],
        attempt=row["attempt"],
        state=state,
        payload=row["payload"],
        codec=row["codec"],
        error=error,
    )


def requeue(tx: Transaction, queue: str, activity_id: UUID, *, actor: str) -> bool:
    """Give a dead letter all its attempts again; False when it is none."""
    row = tx.row("dead_letter", id=activity_id.bytes, queue=queue)
    if row is None:
        return False
    tx.change("revive", row_id=row["row_id"])
    tx.change("history_delete", row_id=row["row_id"])
    # The row is about to forget its end. A lost claim has told of the attempt already.
    stored = tx.rows("events_of", id=activity_id.bytes)
    reaped = bool(stored) and decode_event(stored[-1]["event"]).kind is EventKind.CLAIM_LOST
    tx.remember(
        event_of(
            row,
            EventKind.DEAD_LETTERED,
            row["finished_ms"],
            ActivityState.DEAD_LETTER,
            activity_id=activity_id,
            error=decode_error(row["error"]),
            detail=None if reaped else attempt_detail(row),
        )
    )
    tx.keep(
        queue,
        event_of(
            row,
            EventKind.REQUEUED,
            tx.now_ms,
            ActivityState.PENDING,
            activity_id=activity_id,
            attempt=0,
            detail={"actor": actor},
        ),
    )
    return True
