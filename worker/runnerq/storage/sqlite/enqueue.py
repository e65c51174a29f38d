"""Storing new activities, and who gets an idempotency key: one transaction for all of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnerq.clock import instant, milliseconds
from runnerq.storage.records import (
    ActivityEvent,
    ActivityState,
    Enqueued,
    EnqueueStatus,
    EventKind,
    Idempotency,
    IdempotencyBehavior,
)
from runnerq.storage.sqlite.encoding import encode, id_of, optional_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runnerq.storage.records import ActivitySpec
    from runnerq.storage.sqlite.session import Transaction


def enqueue(tx: Transaction, queue: str, specs: Sequence[ActivitySpec]) -> list[Enqueued]:
    """As if the specs came one after the other."""
    return [_enqueue(tx, queue, spec) for spec in specs]


def _enqueue(tx: Transaction, queue: str, spec: ActivitySpec) -> Enqueued:
    if tx.row("stored_anywhere", id=spec.id.bytes) is not None:
        return Enqueued(spec.id, EnqueueStatus.EXISTING)
    if spec.idempotency is not None:
        refused = _held_by_another(tx, queue, spec.type, spec.idempotency)
        if refused is not None:
            return refused
        _take_key(tx, queue, spec, spec.idempotency)
    if spec.run_at is not None:
        due_ms = max(tx.now_ms, milliseconds(spec.run_at))
    else:
        due_ms = tx.now_ms + max(0, spec.delay_ms)
    later = due_ms > tx.now_ms
    state = ActivityState.SCHEDULED if later else ActivityState.PENDING
    tx.change(
        "activity_insert",
        id=spec.id.bytes,
        queue=queue,
        type=spec.type,
        state=state,
        priority=int(spec.priority),
        due_ms=due_ms,
        max_attempts=spec.max_attempts,
        timeout_ms=spec.timeout_ms,
        payload=spec.payload,
        codec=spec.codec,
        headers=encode(spec.headers),
        key=spec.idempotency.key if spec.idempotency else None,
        root_id=optional_bytes(spec.root_id),
        parent_id=optional_bytes(spec.parent_id),
        depth=spec.depth,
    )
    tx.transition(
        queue,
        ActivityEvent(
            activity_id=spec.id,
            kind=EventKind.SCHEDULED if later else EventKind.ENQUEUED,
            at=instant(tx.now_ms),
            type=spec.type,
            state=state,
        ),
    )
    return Enqueued(spec.id, EnqueueStatus.CREATED)


def _held_by_another(
    tx: Transaction, queue: str, activity_type: str, wanted: Idempotency
) -> Enqueued | None:
    """The answer when the key's holder stands in the way; None when a new activity may be made."""
    holder = tx.row("key_holder", queue=queue, type=activity_type, key=wanted.key)
    if holder is None:
        return None
    holder_id = id_of(holder["id"])
    match wanted.behavior:
        case IdempotencyBehavior.ALLOW_REUSE:
            return None
        case IdempotencyBehavior.RETURN_EXISTING:
            return Enqueued(holder_id, EnqueueStatus.EXISTING)
        case IdempotencyBehavior.NO_REUSE:
            return Enqueued(holder_id, EnqueueStatus.DUPLICATE)
        case IdempotencyBehavior.ALLOW_REUSE_ON_FAILURE:
            failed = ActivityState(holder["state"]).failed
            return None if failed else Enqueued(holder_id, EnqueueStatus.EXISTING)


def _take_key(tx: Transaction, queue: str, spec: ActivitySpec, wanted: Idempotency) -> None:
    tx.change(
        "key_take",
        queue=queue,
        type=spec.type,
        key=wanted.key,
        id=spec.id.bytes,
        expires_ms=None if wanted.ttl_ms is None else tx.now_ms + wanted.ttl_ms,
    )
