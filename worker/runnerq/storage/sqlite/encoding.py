"""Between columns and records. Ids are 16 bytes, instants milliseconds, structures JSON. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from runnerq.clock import instant, optional_instant
from runnerq.storage.records import (
    ActivityEvent,
    ActivityResult,
    ActivitySnapshot,
    ActivityState,
    Claim,
    ErrorInfo,
    EventKind,
    Priority,
)
from runnerq.storage.timeline import CLAIMED_AT_MS, READY_AT_MS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping


def encode(value: object) -> bytes:
    return msgspec.json.encode(value)


def encode_error(error: ErrorInfo | None) -> bytes | None:
    return None if error is None else msgspec.json.encode(error)


def decode_error(stored: bytes | None) -> ErrorInfo | None:
    return None if stored is None else msgspec.json.decode(stored, type=ErrorInfo)


def decode_event(stored: bytes) -> ActivityEvent:
    return msgspec.json.decode(stored, type=ActivityEvent)


def id_of(stored: bytes) -> UUID:
    return UUID(bytes=stored)


def optional_id(stored: bytes | None) -> UUID | None:
    return None if stored is None else UUID(bytes=stored)


def optional_bytes(activity_id: UUID | None) -> bytes | None:
    return None if activity_id is None else activity_id.bytes


def claim_of(row: sqlite3.Row) -> Claim:
    return Claim(
        id=id_of(row["id"]),
        token=id_of(row["token"]),
        queue=row["queue"],
        type=row["type"],
        payload=row["payload"],
        codec=row["codec"],
        priority=Priority(row["priority"]),
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        timeout_ms=row["timeout_ms"],
        created_at=instant(row["created_ms"]),
        ready_at=instant(row["due_ms"]),
        claimed_at=instant(row["claimed_ms"]),
        deadline=instant(row["deadline_ms"]),
        headers=msgspec.json.decode(row["headers"], type=dict[str, str]),
        root_id=optional_id(row["root_id"]),
        parent_id=optional_id(row["parent_id"]),
        depth=row["depth"],
    )


def snapshot_of(row: sqlite3.Row) -> ActivitySnapshot:
    return ActivitySnapshot(
        id=id_of(row["id"]),
        queue=row["queue"],
        type=row["type"],
        status=ActivityState(row["state"]),
        priority=Priority(row["priority"]),
        payload=row["payload"],
        codec=row["codec"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        timeout_ms=row["timeout_ms"],
        created_at=instant(row["created_ms"]),
        ready_at=instant(row["due_ms"]),
        claimed_at=optional_instant(row["claimed_ms"]),
        deadline=optional_instant(row["deadline_ms"]),
        finished_at=optional_instant(row["finished_ms"]),
        worker_id=row["worker_id"],
        idempotency_key=row["idempotency_key"],
        result=row["result"],
        result_codec=row["result_codec"],
        error=decode_error(row["error"]),
        headers=msgspec.json.decode(row["headers"], type=dict[str, str]),
        root_id=optional_id(row["root_id"]),
        parent_id=optional_id(row["parent_id"]),
    )


def result_of(row: sqlite3.Row) -> ActivityResult:
    return ActivityResult(
        id=id_of(row["id"]),
        state=ActivityState(row["state"]),
        result=row["result"],
        codec=row["result_codec"],
        error=decode_error(row["error"]),
        finished_at=instant(row["finished_ms"]),
    )


def event_of(
    row: sqlite3.Row,
    kind: EventKind,
    at_ms: int,
    state: ActivityState,
    *,
    activity_id: UUID,
    attempt: int | None = None,
    error: ErrorInfo | None = None,
    detail: Mapping[str, object] | None = None,
) -> ActivityEvent:
    """A step of the activity in `row`, which has type, attempt and worker_id."""
    return ActivityEvent(
        activity_id=activity_id,
        kind=kind,
        at=instant(at_ms),
        type=row["type"],
        state=state,
        attempt=row["attempt"] if attempt is None else attempt,
        worker_id=row["worker_id"],
        error=error,
        detail=detail or {},
    )


def attempt_detail(row: sqlite3.Row) -> dict[str, object]:
    """What an event that ends an attempt must carry for the timeline."""
    return {CLAIMED_AT_MS: row["claimed_ms"], READY_AT_MS: row["due_ms"]}
