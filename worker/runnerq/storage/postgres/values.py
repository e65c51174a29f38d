"""Values as they are stored, and back: errors, headers and keys as bytes, rows as snapshots.

Text that people's code made (errors, headers, keys) is stored as bytes, because Postgres text takes
neither NUL nor lone surrogates and must not fail an acknowledgement over one.
"""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from runnerq.clock import instant
from runnerq.storage.postgres.codes import EVENT_OF, PRIORITY_OF, STATE_OF
from runnerq.storage.records import (
    ActivityEvent,
    ActivityResult,
    ActivitySnapshot,
    ActivityState,
    ErrorInfo,
    TypeCounters,
)
from runnerq.storage.timeline import CLAIMED_AT_MS, READY_AT_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from asyncpg import Record

    from runnerq.storage.records import Acknowledgement, ActivitySpec

_EPOCH = instant(0)
_MILLISECOND = timedelta(milliseconds=1)

_json = msgspec.json.Encoder()
_error = msgspec.json.Decoder(ErrorInfo)
_headers = msgspec.json.Decoder(dict[str, str])
_counters = msgspec.json.Decoder(dict[str, TypeCounters])


def error_bytes(error: ErrorInfo | None) -> bytes | None:
    if error is None:
        return None
    try:
        return _json.encode(error)
    except UnicodeEncodeError:
        # Lone surrogates in a message: what is shown for them is better than a lost error.
        return _json.encode(
            ErrorInfo(
                kind=error.kind,
                type=_printable(error.type),
                message=_printable(error.message),
                traceback=_printable(error.traceback),
                causes=tuple(_printable(cause) for cause in error.causes),
            )
        )


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def error_of(stored: bytes | None) -> ErrorInfo | None:
    return None if stored is None else _error.decode(stored)


def headers_bytes(headers: Mapping[str, str]) -> bytes | None:
    return _json.encode(headers) if headers else None


def headers_of(stored: bytes | None) -> dict[str, str]:
    return {} if stored is None else _headers.decode(stored)


def counters_bytes(counters: Mapping[str, TypeCounters]) -> bytes | None:
    return _json.encode(counters) if counters else None


def counters_of(stored: bytes | None) -> dict[str, TypeCounters]:
    return {} if stored is None else _counters.decode(stored)


def key_bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def key_of(stored: bytes | None) -> str | None:
    return None if stored is None else stored.decode("utf-8", "surrogatepass")


def key_digest(key: bytes) -> UUID:
    """128 bits of the key's hash, in the type that Postgres compares fastest."""
    return UUID(bytes=hashlib.blake2b(key, digest_size=16).digest())


def outcome_digest(ack: Acknowledgement) -> int:
    """What makes two acknowledgements of one attempt the same, in 64 bits. How long it ran does not."""
    content = _json.encode((ack.kind, ack.delay_ms, ack.codec)) + (error_bytes(ack.error) or b"")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big", signed=True)


def columns_of(specs: Sequence[ActivitySpec], types: Mapping[str, int]) -> tuple[list[object], ...]:
    """The arrays that `enqueue` and `enqueue_keyed` take, in the order of their parameters."""
    return (
        [spec.id for spec in specs],
        [types[spec.type] for spec in specs],
        [int(spec.priority) for spec in specs],
        [max(0, spec.delay_ms) for spec in specs],
        [spec.run_at for spec in specs],
        [spec.timeout_ms for spec in specs],
        [spec.max_attempts for spec in specs],
        [spec.codec for spec in specs],
        [spec.payload for spec in specs],
        [headers_bytes(spec.headers) for spec in specs],
        [spec.root_id for spec in specs],
        [spec.parent_id for spec in specs],
        [spec.depth for spec in specs],
    )


def snapshot(row: Record, queue: str, type_name: str) -> ActivitySnapshot:
    return ActivitySnapshot(
        id=row["id"],
        queue=queue,
        type=type_name,
        status=STATE_OF[row["state"]],
        priority=PRIORITY_OF[row["priority"]],
        payload=row["payload"],
        codec=row["codec"],
        attempt=row["attempt"],
        max_attempts=row["max_attempts"],
        timeout_ms=row["timeout_ms"],
        created_at=row["created_at"],
        ready_at=row["due"],
        claimed_at=row["claimed_at"],
        deadline=row["deadline"],
        finished_at=row["finished_at"],
        worker_id=row["worker"],
        idempotency_key=key_of(row["idempotency_key"]),
        result=row["result"],
        result_codec=row["result_codec"] or "json",
        error=error_of(row["error"]),
        headers=headers_of(row["headers"]),
        root_id=row["root_id"],
        parent_id=row["parent_id"],
    )


def result(row: Record) -> ActivityResult:
    state = STATE_OF[row["state"]]
    return ActivityResult(
        id=row["id"],
        state=state,
        result=row["result"],
        codec=row["result_codec"] or "json",
        error=None if state is ActivityState.COMPLETED else error_of(row["error"]),
        finished_at=row["finished_at"],
    )


def _whole_ms(at: datetime) -> int:
    """Rounded down: rounded up, work due at its creation would seem to have been due after it."""
    return (at - _EPOCH) // _MILLISECOND


def stored_event(row: Record, type_name: str) -> ActivityEvent:
    detail: dict[str, Any] = {}
    if row["claimed_at"] is not None:
        detail[CLAIMED_AT_MS] = _whole_ms(row["claimed_at"])
    if row["ready_at"] is not None:
        detail[READY_AT_MS] = _whole_ms(row["ready_at"])
    if row["run_ms"] is not None:
        detail["run_ms"] = row["run_ms"]
    if row["actor"] is not None:
        detail["actor"] = row["actor"]
    return ActivityEvent(
        activity_id=row["activity_id"],
        kind=EVENT_OF[row["kind"]],
        at=row["at"],
        type=type_name,
        state=STATE_OF[row["state"]],
        attempt=row["attempt"],
        worker_id=row["worker"],
        error=error_of(row["error"]),
        detail=detail,
    )
