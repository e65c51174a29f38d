"""The data that flows between callers, engine and backends. Frozen; each step adds, none mutates.

    ActivitySpec -> (stored) -> Claim -> Acknowledgement -> ActivityResult

Instants are aware UTC datetimes of the backend's clock. Durations are integer milliseconds here
(`timedelta` in the public API). Values are bytes with the name of the codec that wrote them.

        Pending | Scheduled --claim--> Processing --completed--> Completed
                                          |--failed-->   Failed
                                          |--retried-->  Retrying (or DeadLetter: attempts used up)
                                          |--snoozed-->  Scheduled          (attempt not counted)
                                          |--released--> Pending            (attempt not counted)
                                          '--owner lost-> Pending (or DeadLetter: attempts used up)
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import msgspec


class Priority(IntEnum):
    """Larger runs first. Stored as its number."""

    LOW = 1
    NORMAL = 2
    HIGH = 3
    CRITICAL = 4


class ActivityState(StrEnum):
    """Where an activity is. The value is the word used outside Python, also in JSON (`status`)."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD_LETTER = "dead_letter"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL_STATES

    @property
    def failed(self) -> bool:
        """Ended without a result: what `allow_reuse_on_failure` lets a key be used again after."""
        return self in FAILED_STATES


TERMINAL_STATES = frozenset(
    {
        ActivityState.COMPLETED,
        ActivityState.FAILED,
        ActivityState.DEAD_LETTER,
        ActivityState.CANCELLED,
    }
)
FAILED_STATES = TERMINAL_STATES - {ActivityState.COMPLETED}
WAITING_STATES = frozenset({ActivityState.PENDING, ActivityState.SCHEDULED, ActivityState.RETRYING})


class IdempotencyBehavior(StrEnum):
    """What an enqueue does when its key is already held by an activity of the same queue and type."""

    ALLOW_REUSE = "allow_reuse"
    RETURN_EXISTING = "return_existing"
    ALLOW_REUSE_ON_FAILURE = "allow_reuse_on_failure"
    NO_REUSE = "no_reuse"


class OutcomeKind(StrEnum):
    """How an attempt ended, as the engine reports it. Storage turns `retried` without attempts left
    into the state dead_letter."""

    COMPLETED = "completed"
    RETRIED = "retried"
    FAILED = "failed"
    SNOOZED = "snoozed"
    RELEASED = "released"


class ErrorKind(StrEnum):
    """Why an attempt failed; decides which exception a future raises."""

    HANDLER = "handler"
    TIMEOUT = "timeout"
    WORKER_LOST = "worker_lost"
    PAYLOAD = "payload"
    RESULT = "result"


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An exception as text. Never holds frames or objects, so nothing it names is kept alive."""

    kind: ErrorKind
    type: str
    message: str
    traceback: str = ""
    causes: tuple[str, ...] = ()
    """`Type: message` of each exception in the cause chain, nearest first."""


class Idempotency(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    behavior: IdempotencyBehavior = IdempotencyBehavior.RETURN_EXISTING
    ttl_ms: int | None = None
    """How long the key is held after this enqueue; None = as long as the activity is stored."""


class ActivitySpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asked for. Its id is made by the caller (UUIDv7), so that an enqueue whose
    answer was lost can be repeated without creating a second activity."""

    id: UUID
    type: str
    payload: bytes
    codec: str = "json"
    priority: Priority = Priority.NORMAL
    max_attempts: int = 3
    """Runs in all: 3 = first + 2 retries; 1 = no retry; 0 = no limit."""
    timeout_ms: int = 300_000
    delay_ms: int = 0
    run_at: datetime | None = None
    """An absolute due time; excludes `delay_ms`. In the past means due now."""
    idempotency: Idempotency | None = None
    headers: Mapping[str, str] = {}
    root_id: UUID | None = None
    parent_id: UUID | None = None
    depth: int = 0


class EnqueueStatus(StrEnum):
    CREATED = "created"
    EXISTING = "existing"
    """The key's holder is returned; nothing was created. Also: this very id was stored before."""
    DUPLICATE = "duplicate"
    """The key is held and may not be reused; nothing was created."""


class Enqueued(msgspec.Struct, frozen=True):
    """Outcome of one spec, in input order. `id` is the new activity's or the key holder's."""

    id: UUID
    status: EnqueueStatus


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One batch claim. `types` are exact names: patterns are resolved by the engine."""

    queue: str
    engine_id: UUID
    types: tuple[str, ...]
    limit: int
    lease_floor_ms: int = 60_000
    lease_margin_ms: int = 10_000
    ageing_ms: int | None = 300_000
    """A lane whose head has waited this long counts as one priority higher, twice this long as two,
    and so on; None switches ageing off."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """An activity handed to one attempt of one engine, until `deadline`.

    `token` is random and unique to the attempt; every write of the attempt carries it."""

    id: UUID
    token: UUID
    queue: str
    type: str
    payload: bytes
    codec: str
    priority: Priority
    attempt: int
    """1 for the first run. Counted when claimed, so a killed worker has used one."""
    max_attempts: int
    timeout_ms: int
    created_at: datetime
    ready_at: datetime
    """When it became claimable: the start of the waiting time."""
    claimed_at: datetime
    deadline: datetime
    headers: Mapping[str, str] = {}
    root_id: UUID | None = None
    parent_id: UUID | None = None
    depth: int = 0


class ClaimRef(msgspec.Struct, frozen=True):
    """Names one attempt."""

    id: UUID
    token: UUID


class Acknowledgement(msgspec.Struct, frozen=True, kw_only=True):
    """How one attempt ended, with what must be stored in the same step."""

    id: UUID
    token: UUID
    kind: OutcomeKind
    result: bytes | None = None
    """Completed only: the encoded result. An encoded null is a result; None only when not completed."""
    codec: str = "json"
    error: ErrorInfo | None = None
    """Failed and retried only."""
    delay_ms: int = 0
    """Retried and snoozed: how long until it is due again."""
    run_ms: int = 0
    """How long the handler ran, for the record."""


class AckStatus(StrEnum):
    ACCEPTED = "accepted"
    """Stored, now or by an earlier call with the same content."""
    CLAIM_LOST = "claim_lost"
    CONFLICT = "conflict"
    """This attempt was acknowledged before with another outcome; the first one stands."""


class Acknowledged(msgspec.Struct, frozen=True):
    """Outcome of one acknowledgement, in input order. `state` is the activity's new state when
    accepted (dead_letter for a `retried` whose attempts are used up)."""

    id: UUID
    status: AckStatus
    state: ActivityState | None = None


class Reaped(msgspec.Struct, frozen=True, kw_only=True):
    """An activity taken back from an owner that is gone."""

    id: UUID
    type: str
    attempt: int
    state: ActivityState
    """pending, or dead_letter when its attempts are used up."""
    payload: bytes = b""
    codec: str = "json"
    error: ErrorInfo | None = None


class EngineState(StrEnum):
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


class EngineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One engine process. `engine_id` is random at each start: never reused."""

    engine_id: UUID
    host: str
    pid: int
    slots: int
    types: tuple[str, ...]
    pool: str = ""
    pod: str = ""
    """Name of the pod, or of the local process in a ProcessFleet; "" when run by hand."""
    build_id: str = ""
    version: str = ""

    @property
    def worker_id(self) -> str:
        return f"{self.host}/{self.pid}/{self.engine_id.hex[-8:]}"


class TypeCounters(msgspec.Struct, frozen=True):
    """Monotone counters of one type in one engine process, carried by its heartbeat."""

    started: int = 0
    finished: int = 0
    run_ms: int = 0
    """Sum of handler run time over `finished`."""
    run_ms_squared: float = 0.0
    """Sum of squares, for the variation of the service time."""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    engine_id: UUID
    state: EngineState
    busy: int
    """Claims held: running or buffered."""
    counters: Mapping[str, TypeCounters] = {}


class HeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    known: bool
    """False: the backend has no such engine any more (pruned as dead). Its claims are lost."""
    cordoned: bool = False
    """True: this engine must not claim. Storage gives a cordoned engine nothing anyway."""


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    info: EngineInfo
    state: EngineState
    busy: int
    cordoned: bool
    started_at: datetime
    heartbeat_age_ms: int
    counters: Mapping[str, TypeCounters] = {}


class TypeDemand(msgspec.Struct, frozen=True, kw_only=True):
    """What one activity type asks of its workers, read in one bounded query."""

    type: str
    claimable: int
    claimable_capped: bool = False
    """True: `claimable` is a lower bound, the count stopped at the cap."""
    oldest_claimable_age_ms: int | None = None
    """Age since it became *claimable*; None when nothing is."""
    running: int = 0
    due_soon: int = 0
    """Becomes claimable within the horizon asked for (delayed, snoozed and backing-off work)."""
    future: int = 0
    """Waiting but not yet due, `due_soon` included; capped like `claimable`."""


class QueueDemand(msgspec.Struct, frozen=True, kw_only=True):
    queue: str
    as_of: datetime
    """The backend's clock at the time of the read."""
    types: tuple[TypeDemand, ...]
    engines: tuple[EngineStatus, ...]


class ActivityResult(msgspec.Struct, frozen=True, kw_only=True):
    """How an activity ended. Exists in the same instant as its terminal state."""

    id: UUID
    state: ActivityState
    result: bytes | None = None
    codec: str = "json"
    error: ErrorInfo | None = None
    finished_at: datetime | None = None


class ActivitySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that is stored of one activity, for people and tools."""

    id: UUID
    queue: str
    type: str
    status: ActivityState
    priority: Priority
    payload: bytes
    codec: str
    attempt: int
    """Runs counted so far."""
    max_attempts: int
    timeout_ms: int
    created_at: datetime
    ready_at: datetime
    claimed_at: datetime | None = None
    deadline: datetime | None = None
    finished_at: datetime | None = None
    worker_id: str | None = None
    """Current owner; of ended or reclaimed work the last one."""
    idempotency_key: str | None = None
    result: bytes | None = None
    result_codec: str = "json"
    error: ErrorInfo | None = None
    """The last error, also of a retried attempt."""
    headers: Mapping[str, str] = {}
    root_id: UUID | None = None
    parent_id: UUID | None = None


class EventKind(StrEnum):
    ENQUEUED = "enqueued"
    SCHEDULED = "scheduled"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    RETRIED = "retried"
    FAILED = "failed"
    DEAD_LETTERED = "dead_lettered"
    SNOOZED = "snoozed"
    RELEASED = "released"
    CLAIM_LOST = "claim_lost"
    REQUEUED = "requeued"


class ActivityEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an activity's timeline, stored or derived from its row."""

    activity_id: UUID
    kind: EventKind
    at: datetime
    type: str = ""
    state: ActivityState | None = None
    attempt: int = 0
    worker_id: str | None = None
    error: ErrorInfo | None = None
    detail: Mapping[str, Any] = {}


class StreamGap(msgspec.Struct, frozen=True):
    """The live stream lost events here; what is shown must be read again."""

    reason: str


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list, newest first, by keyset. `next_cursor` None means the end."""

    items: tuple[ActivitySnapshot, ...]
    next_cursor: str | None = None


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts by state, each exact up to `cap` and then a lower bound ("at least")."""

    queue: str
    as_of: datetime
    counts: Mapping[ActivityState, int]
    capped: frozenset[ActivityState]
    cap: int
    by_type: Mapping[str, Mapping[ActivityState, int]]
    """Live states only; same cap per type."""
    oldest_claimable_age_ms: int | None = None


class DecisionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A scaling decision as the operator took it. `detail` is its full explanation, JSON-able."""

    queue: str
    pool: str
    at: datetime
    from_replicas: int
    to_replicas: int
    reason: str
    summary: str
    detail: Mapping[str, Any]


class PodRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker pod (or local process) as the fleet sees it."""

    queue: str
    pool: str
    name: str
    phase: str
    """starting | ready | draining | unschedulable | gone"""
    detail: str = ""
    since: datetime
