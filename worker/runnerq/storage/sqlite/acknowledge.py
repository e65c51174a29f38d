"""Ending attempts: state, result and error in one step, fenced by the attempt's token.

token is the row's current one      -> stored
token is the last acknowledged one  -> the same outcome again: accepted; another: conflict
anything else                       -> the claim is lost
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from runnerq.retry import attempts_remain
from runnerq.storage.records import (
    Acknowledged,
    Acknowledgement,
    AckStatus,
    ActivityState,
    EventKind,
    OutcomeKind,
)
from runnerq.storage.sqlite.encoding import attempt_detail, encode, encode_error, event_of

if TYPE_CHECKING:
    import sqlite3

    from runnerq.storage.sqlite.session import Transaction


def acknowledge(tx: Transaction, queue: str, ack: Acknowledgement) -> Acknowledged:
    live = tx.row("live_attempt", id=ack.id.bytes, queue=queue)
    if live is not None and live["token"] == ack.token.bytes:
        return Acknowledged(ack.id, AckStatus.ACCEPTED, _end_attempt(tx, queue, live, ack))
    earlier = live or tx.row("ended_attempt", id=ack.id.bytes, queue=queue)
    if earlier is None or earlier["acked_token"] != ack.token.bytes:
        return Acknowledged(ack.id, AckStatus.CLAIM_LOST)
    state = ActivityState(earlier["acked_state"])
    if earlier["acked_digest"] != _digest(ack, state):
        return Acknowledged(ack.id, AckStatus.CONFLICT)
    return Acknowledged(ack.id, AckStatus.ACCEPTED, state)


def _end_attempt(
    tx: Transaction, queue: str, row: sqlite3.Row, ack: Acknowledgement
) -> ActivityState:
    match ack.kind:
        case OutcomeKind.COMPLETED:
            return _finish(
                tx, queue, row, ack, state=ActivityState.COMPLETED, kind=EventKind.COMPLETED
            )
        case OutcomeKind.FAILED:
            return _finish(tx, queue, row, ack, state=ActivityState.FAILED, kind=EventKind.FAILED)
        case OutcomeKind.RETRIED if not attempts_remain(row["max_attempts"], row["attempt"] - 1):
            return _finish(
                tx, queue, row, ack, state=ActivityState.DEAD_LETTER, kind=EventKind.DEAD_LETTERED
            )
        case OutcomeKind.RETRIED:
            state, kind, due_ms = (
                ActivityState.RETRYING,
                EventKind.RETRIED,
                tx.now_ms + ack.delay_ms,
            )
        case OutcomeKind.SNOOZED:
            state, kind = ActivityState.SCHEDULED, EventKind.SNOOZED
            due_ms = tx.now_ms + ack.delay_ms
        case OutcomeKind.RELEASED:
            # It keeps its due time: work handed back goes to its old place, not behind the rest.
            state, kind, due_ms = ActivityState.PENDING, EventKind.RELEASED, row["due_ms"]
    counted = ack.kind is OutcomeKind.RETRIED
    tx.change(
        "put_back",
        row_id=row["row_id"],
        state=state,
        due_ms=due_ms,
        attempt=row["attempt"] if counted else row["attempt"] - 1,
        error=encode_error(ack.error) if counted else None,
        acked_token=ack.token.bytes,
        acked_digest=_digest(ack, state),
        acked_state=state,
    )
    tx.keep(
        queue,
        event_of(
            row,
            kind,
            tx.now_ms,
            state,
            activity_id=ack.id,
            error=ack.error if counted else None,
            detail={**attempt_detail(row), "run_ms": ack.run_ms},
        ),
    )
    return state


def _finish(
    tx: Transaction,
    queue: str,
    row: sqlite3.Row,
    ack: Acknowledgement,
    *,
    state: ActivityState,
    kind: EventKind,
) -> ActivityState:
    completed = state is ActivityState.COMPLETED
    error = None if completed else ack.error
    tx.change(
        "history_insert",
        row_id=row["row_id"],
        state=state,
        result=ack.result if completed else None,
        result_codec=ack.codec,
        error=encode_error(error),
        acked_token=ack.token.bytes,
        acked_digest=_digest(ack, state),
    )
    tx.change("live_delete", row_id=row["row_id"])
    tx.transition(queue, event_of(row, kind, tx.now_ms, state, activity_id=ack.id, error=error))
    return state


def _digest(ack: Acknowledgement, state: ActivityState) -> bytes:
    """What makes two acknowledgements the same. How long the handler ran is a note, not part of the
    outcome; nor is a delay that had no effect."""
    delay_ms = 0 if state.terminal else ack.delay_ms
    outcome = (ack.kind, ack.result, ack.codec, ack.error, delay_ms)
    return hashlib.sha256(encode(outcome)).digest()
