"""How records look as JSON: one shape for the REST API, the live stream and the command line.

Pure. Keys are snake_case, instants RFC 3339 in UTC, durations integer milliseconds under a name that
ends in `_ms`, an activity's state is `status`. Stored JSON is embedded as the bytes it was stored as,
never decoded and encoded again, so integers beyond 2^53 and every digit survive.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from runnerq.storage.records import (
        ActivityEvent,
        ActivityResult,
        ActivitySnapshot,
        ActivityState,
        DecisionRecord,
        EngineStatus,
        ErrorInfo,
        PodRecord,
        QueueDemand,
        QueueStats,
        TypeDemand,
    )

Document = dict[str, object]
"""What `encode` turns into a JSON object."""

LIST_VALUE_BYTES = 1_024
"""Payloads and results beyond this size are left out of lists; the single activity has them whole."""


def encode(document: object) -> bytes:
    """UTF-8 JSON of a document; embedded values keep their stored bytes."""
    return msgspec.json.encode(document)


def snapshot_document(snapshot: ActivitySnapshot, *, whole: bool = True) -> Document:
    """An activity. Not `whole`: as a row of a list, without large values and tracebacks."""
    document: Document = {
        "id": str(snapshot.id),
        "queue": snapshot.queue,
        "type": snapshot.type,
        "status": snapshot.status.value,
        "priority": snapshot.priority.name.lower(),
        "attempt": snapshot.attempt,
        "max_attempts": snapshot.max_attempts,
        "timeout_ms": snapshot.timeout_ms,
        "created_at": snapshot.created_at,
        "ready_at": snapshot.ready_at,
        "claimed_at": snapshot.claimed_at,
        "deadline": snapshot.deadline,
        "finished_at": snapshot.finished_at,
        "worker_id": snapshot.worker_id,
        "idempotency_key": snapshot.idempotency_key,
        "error": _error(snapshot.error, whole=whole),
        "headers": dict(snapshot.headers),
        "root_id": _id(snapshot.root_id),
        "parent_id": _id(snapshot.parent_id),
    }
    document |= _value("payload", snapshot.payload, snapshot.codec, whole=whole)
    document |= _value("result", snapshot.result, snapshot.result_codec, whole=whole)
    return document


def result_document(result: ActivityResult) -> Document:
    """How an activity ended, with its result or error."""
    document: Document = {
        "id": str(result.id),
        "status": result.state.value,
        "finished": True,
        "finished_at": result.finished_at,
        "error": _error(result.error, whole=True),
    }
    return document | _value("result", result.result, result.codec, whole=True)


def unfinished_document(activity_id: UUID, state: ActivityState) -> Document:
    """The same shape for an activity that has not ended."""
    return {
        "id": str(activity_id),
        "status": state.value,
        "finished": False,
        "finished_at": None,
        "error": None,
        "result": None,
        "result_codec": None,
        "result_encoding": None,
        "result_bytes": 0,
    }


def event_document(event: ActivityEvent, *, whole: bool = True) -> Document:
    """One step of a timeline; not `whole`: as in the live stream, without the traceback."""
    return {
        "activity_id": str(event.activity_id),
        "kind": event.kind.value,
        "at": event.at,
        "type": event.type,
        "status": None if event.state is None else event.state.value,
        "attempt": event.attempt,
        "worker_id": event.worker_id,
        "error": _error(event.error, whole=whole),
        "detail": dict(event.detail),
    }


def stats_document(stats: QueueStats) -> Document:
    """Counts by state. A state in `capped` has at least that many."""
    return {
        "queue": stats.queue,
        "as_of": stats.as_of,
        "counts": _counts(stats.counts),
        "capped": sorted(state.value for state in stats.capped),
        "cap": stats.cap,
        "by_type": {name: _counts(stats.by_type[name]) for name in sorted(stats.by_type)},
        "oldest_claimable_age_ms": stats.oldest_claimable_age_ms,
    }


def demand_document(demand: QueueDemand) -> Document:
    """What can be claimed and what runs now, in all and by type."""
    return {
        "claimable": sum(entry.claimable for entry in demand.types),
        "claimable_capped": any(entry.claimable_capped for entry in demand.types),
        "running": sum(entry.running for entry in demand.types),
        "future": sum(entry.future for entry in demand.types),
        "types": [_type_demand(entry) for entry in demand.types],
    }


def engine_document(engine: EngineStatus, *, stale: bool) -> Document:
    """One engine process. `stale`: silent for so long that its work is being taken back."""
    info = engine.info
    return {
        "worker_id": info.worker_id,
        "engine_id": str(info.engine_id),
        "pool": info.pool,
        "pod": info.pod,
        "host": info.host,
        "pid": info.pid,
        "build_id": info.build_id,
        "version": info.version,
        "state": "stale" if stale else engine.state.value,
        "cordoned": engine.cordoned,
        "busy": engine.busy,
        "slots": info.slots,
        "types": list(info.types),
        "started_at": engine.started_at,
        "heartbeat_age_ms": engine.heartbeat_age_ms,
        "finished": sum(counters.finished for counters in engine.counters.values()),
    }


def decision_document(decision: DecisionRecord) -> Document:
    return {
        "queue": decision.queue,
        "pool": decision.pool,
        "at": decision.at,
        "from_replicas": decision.from_replicas,
        "to_replicas": decision.to_replicas,
        "reason": decision.reason,
        "summary": decision.summary,
        "detail": dict(decision.detail),
    }


def pod_document(pod: PodRecord) -> Document:
    return {
        "name": pod.name,
        "pool": pod.pool,
        "phase": pod.phase,
        "detail": pod.detail,
        "since": pod.since,
    }


def _value(name: str, data: bytes | None, codec: str, *, whole: bool) -> Document:
    size = 0 if data is None else len(data)
    document: Document = {
        name: None,
        f"{name}_codec": None if data is None else codec,
        f"{name}_encoding": None,
        f"{name}_bytes": size,
    }
    if data is None:
        return document
    if not whole and size > LIST_VALUE_BYTES:
        document[f"{name}_encoding"] = "omitted"
    elif codec == "json" and _is_json(data):
        document[name] = msgspec.Raw(data)
        document[f"{name}_encoding"] = "json"
    else:
        document[name] = base64.b64encode(data).decode()
        document[f"{name}_encoding"] = "base64"
    return document


def _is_json(data: bytes) -> bool:
    # Raw bytes go into the answer as they are: one stored value that is not JSON, whoever wrote it,
    # must not break the whole document.
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _error(error: ErrorInfo | None, *, whole: bool) -> Document | None:
    if error is None:
        return None
    document: Document = {
        "kind": error.kind.value,
        "type": error.type,
        "message": error.message if whole else error.message[:LIST_VALUE_BYTES],
    }
    if whole:
        document |= {"traceback": error.traceback, "causes": list(error.causes)}
    return document


def _counts(counts: Mapping[ActivityState, int]) -> Document:
    return {state.value: count for state, count in counts.items()}


def _type_demand(entry: TypeDemand) -> Document:
    return {
        "type": entry.type,
        "claimable": entry.claimable,
        "claimable_capped": entry.claimable_capped,
        "oldest_claimable_age_ms": entry.oldest_claimable_age_ms,
        "running": entry.running,
        "due_soon": entry.due_soon,
        "future": entry.future,
    }


def _id(value: UUID | None) -> str | None:
    return None if value is None else str(value)
