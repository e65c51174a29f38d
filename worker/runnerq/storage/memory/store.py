"""What happens to stored activities: the whole state machine, in plain Python and one step at a time.

The reference that the other backends are compared with, so it is written to be read. It never waits,
knows no event loop, and expects its caller to hold the lock.

    waiting (pending | scheduled | retrying) --claim--> processing --acknowledge--> waiting or ended
                                                            '-------reap---------> pending or dead_letter
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from runnerq.clock import instant, milliseconds
from runnerq.errors import ActivityNotFound
from runnerq.failure import worker_lost
from runnerq.retry import attempts_remain
from runnerq.storage.memory.backlog import Backlog
from runnerq.storage.memory.rows import Row
from runnerq.storage.records import (
    Acknowledged,
    Acknowledgement,
    AckStatus,
    ActivityEvent,
    ActivitySpec,
    ActivityState,
    Claim,
    ClaimRef,
    ClaimRequest,
    Enqueued,
    EnqueueStatus,
    ErrorInfo,
    EventKind,
    IdempotencyBehavior,
    OutcomeKind,
    Reaped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runnerq.clock import Clock

_KeyName = tuple[str, str, str]
"""Queue, type, key: three values, so that no joining character can make two names one."""


class ActivityStore:
    """`changed(queue, events)` is called for every transition, in order."""

    def __init__(self, clock: Clock, changed: Callable[[str, list[ActivityEvent]], None]) -> None:
        self._clock = clock
        self._changed = changed
        self._rows: dict[UUID, Row] = {}
        self._backlogs: dict[str, Backlog] = {}
        self._processing: dict[str, dict[UUID, Row]] = {}
        self._keys: dict[_KeyName, tuple[UUID, int | None]] = {}

    def row(self, queue: str, activity_id: UUID) -> Row:
        row = self._rows.get(activity_id)
        if row is None or row.queue != queue:
            raise ActivityNotFound(queue, activity_id)
        return row

    def rows(self, queue: str) -> Iterator[Row]:
        return (row for row in self._rows.values() if row.queue == queue)

    def backlog(self, queue: str) -> Backlog:
        return self._backlogs.setdefault(queue, Backlog())

    def processing(self, queue: str) -> dict[UUID, Row]:
        return self._processing.setdefault(queue, {})

    def queues(self) -> set[str]:
        return {row.queue for row in self._rows.values()}

    def enqueue(self, queue: str, specs: Iterable[ActivitySpec]) -> list[Enqueued]:
        now_ms = self._clock.now_ms()
        return [self._enqueue(queue, spec, now_ms) for spec in specs]

    def _enqueue(self, queue: str, spec: ActivitySpec, now_ms: int) -> Enqueued:
        if spec.id in self._rows:
            return Enqueued(spec.id, EnqueueStatus.EXISTING)
        if spec.idempotency is not None:
            wanted = spec.idempotency
            name = (queue, spec.type, wanted.key)
            holder = self._holder(name, now_ms)
            if holder is not None:
                match wanted.behavior:
                    case IdempotencyBehavior.RETURN_EXISTING:
                        return Enqueued(holder.id, EnqueueStatus.EXISTING)
                    case IdempotencyBehavior.NO_REUSE:
                        return Enqueued(holder.id, EnqueueStatus.DUPLICATE)
                    case IdempotencyBehavior.ALLOW_REUSE_ON_FAILURE if not holder.state.failed:
                        return Enqueued(holder.id, EnqueueStatus.EXISTING)
                    case _:
                        pass
            expires_ms = None if wanted.ttl_ms is None else now_ms + wanted.ttl_ms
            self._keys[name] = (spec.id, expires_ms)
        if spec.run_at is not None:
            due_ms = max(now_ms, milliseconds(spec.run_at))
        else:
            due_ms = now_ms + max(0, spec.delay_ms)
        later = due_ms > now_ms
        row = Row(
            queue=queue,
            spec=spec,
            state=ActivityState.SCHEDULED if later else ActivityState.PENDING,
            created_ms=now_ms,
            due_ms=due_ms,
        )
        self._rows[spec.id] = row
        self.backlog(queue).add(row)
        kind = EventKind.SCHEDULED if later else EventKind.ENQUEUED
        self._changed(queue, [row.event(kind, now_ms)])
        return Enqueued(spec.id, EnqueueStatus.CREATED)

    def _holder(self, name: _KeyName, now_ms: int) -> Row | None:
        held = self._keys.get(name)
        if held is None:
            return None
        activity_id, expires_ms = held
        if expires_ms is not None and expires_ms <= now_ms:
            return None
        return self._rows.get(activity_id)

    def claim(self, request: ClaimRequest, worker_id: str) -> list[Claim]:
        """Hand out due work to an engine that may have it; whether it may is the caller's question."""
        now_ms = self._clock.now_ms()
        taken = self.backlog(request.queue).take(
            request.types, request.limit, now_ms=now_ms, ageing_ms=request.ageing_ms
        )
        claims: list[Claim] = []
        for activity_id in taken:
            row = self._rows[activity_id]
            lease_ms = max(request.lease_floor_ms, row.spec.timeout_ms + request.lease_margin_ms)
            row.state = ActivityState.PROCESSING
            row.attempt += 1
            row.token = uuid4()
            row.engine_id = request.engine_id
            row.worker_id = worker_id
            row.claimed_ms = now_ms
            row.deadline_ms = now_ms + lease_ms
            self.processing(request.queue)[row.id] = row
            self._changed(request.queue, [row.event(EventKind.CLAIMED, now_ms)])
            claims.append(row.claim())
        return claims

    def held(self, queue: str, ref: ClaimRef) -> Row | None:
        """The row, if `ref` names its current attempt."""
        row = self.processing(queue).get(ref.id)
        return row if row is not None and row.token == ref.token else None

    def extend(self, queue: str, ref: ClaimRef, by_ms: int) -> bool:
        row = self.held(queue, ref)
        if row is None:
            return False
        row.deadline_ms = max(row.deadline_ms or 0, self._clock.now_ms() + by_ms)
        return True

    def acknowledge(self, queue: str, ack: Acknowledgement) -> Acknowledged:
        row = self.held(queue, ClaimRef(ack.id, ack.token))
        if row is not None:
            state = self._end_attempt(row, ack)
            row.acknowledged = (ack, state)
            return Acknowledged(ack.id, AckStatus.ACCEPTED, state)
        known = self._rows.get(ack.id)
        if known is None or known.queue != queue or known.acknowledged is None:
            return Acknowledged(ack.id, AckStatus.CLAIM_LOST)
        earlier, state = known.acknowledged
        if earlier.token != ack.token:
            return Acknowledged(ack.id, AckStatus.CLAIM_LOST)
        if not _same_outcome(earlier, ack, state):
            return Acknowledged(ack.id, AckStatus.CONFLICT)
        return Acknowledged(ack.id, AckStatus.ACCEPTED, state)

    def _end_attempt(self, row: Row, ack: Acknowledgement) -> ActivityState:
        now_ms = self._clock.now_ms()
        detail = {**row.attempt_detail(), "run_ms": ack.run_ms}
        attempt = row.attempt
        match ack.kind:
            case OutcomeKind.COMPLETED:
                row.result, row.result_codec, row.error = ack.result, ack.codec, None
                self._finish(row, ActivityState.COMPLETED, EventKind.COMPLETED, now_ms)
            case OutcomeKind.FAILED:
                row.error = ack.error
                self._finish(row, ActivityState.FAILED, EventKind.FAILED, now_ms)
            case OutcomeKind.RETRIED if not attempts_remain(row.spec.max_attempts, attempt - 1):
                row.error = ack.error
                self._finish(row, ActivityState.DEAD_LETTER, EventKind.DEAD_LETTERED, now_ms)
            case OutcomeKind.RETRIED:
                row.error = ack.error
                self._put_back(row, ActivityState.RETRYING, now_ms + ack.delay_ms)
                self._record(row, EventKind.RETRIED, now_ms, error=ack.error, detail=detail)
            case OutcomeKind.SNOOZED:
                row.attempt -= 1
                self._put_back(row, ActivityState.SCHEDULED, now_ms + ack.delay_ms)
                self._record(row, EventKind.SNOOZED, now_ms, attempt=attempt, detail=detail)
            case OutcomeKind.RELEASED:
                # It keeps its due time: work handed back goes to its old place, not behind the rest.
                row.attempt -= 1
                self._put_back(row, ActivityState.PENDING, row.due_ms)
                self._record(row, EventKind.RELEASED, now_ms, attempt=attempt, detail=detail)
        return row.state

    def reap(self, queue: str, limit: int, gone: Callable[[UUID], bool]) -> list[Reaped]:
        """Take back up to `limit` activities whose deadline passed or whose engine is `gone`."""
        now_ms = self._clock.now_ms()
        lost = [
            row
            for row in self.processing(queue).values()
            if (row.deadline_ms or 0) <= now_ms or row.engine_id is None or gone(row.engine_id)
        ]
        return [self._take_back(row, now_ms) for row in lost[: max(0, limit)]]

    def _take_back(self, row: Row, now_ms: int) -> Reaped:
        detail = row.attempt_detail()
        error = worker_lost(row.attempt)
        spec = row.spec
        row.error = error
        if attempts_remain(spec.max_attempts, row.attempt - 1):
            self._put_back(row, ActivityState.PENDING, now_ms)
            self._record(row, EventKind.CLAIM_LOST, now_ms, error=error, detail=detail)
            return Reaped(
                id=row.id, type=spec.type, attempt=row.attempt, state=row.state, error=error
            )
        row.acknowledged = None
        self._finish(row, ActivityState.DEAD_LETTER, None, now_ms)
        self._record(row, EventKind.CLAIM_LOST, now_ms, error=error, detail=detail)
        self._changed(row.queue, [row.event(EventKind.DEAD_LETTERED, now_ms, error=error)])
        return Reaped(
            id=row.id,
            type=spec.type,
            attempt=row.attempt,
            state=row.state,
            payload=spec.payload,
            codec=spec.codec,
            error=error,
        )

    def requeue(self, queue: str, activity_id: UUID, actor: str) -> bool:
        row = self._rows.get(activity_id)
        if row is None or row.queue != queue or row.state is not ActivityState.DEAD_LETTER:
            return False
        now_ms = self._clock.now_ms()
        finished_ms = row.finished_ms or now_ms
        # The row is about to forget its end. A lost claim has told of the attempt already.
        reaped = bool(row.events) and row.events[-1].kind is EventKind.CLAIM_LOST
        detail = None if reaped else row.attempt_detail()
        self._record(
            row, EventKind.DEAD_LETTERED, finished_ms, error=row.error, detail=detail, told=True
        )
        row.attempt = 0
        row.claimed_ms = row.finished_ms = row.result = row.acknowledged = None
        self._put_back(row, ActivityState.PENDING, now_ms)
        self._record(row, EventKind.REQUEUED, now_ms, detail={"actor": actor})
        return True

    def _put_back(self, row: Row, state: ActivityState, due_ms: int) -> None:
        self.processing(row.queue).pop(row.id, None)
        row.state, row.due_ms = state, due_ms
        row.give_up_owner()
        self.backlog(row.queue).add(row)

    def _finish(self, row: Row, state: ActivityState, kind: EventKind | None, now_ms: int) -> None:
        self.processing(row.queue).pop(row.id, None)
        row.state, row.finished_ms = state, now_ms
        row.give_up_owner()
        if kind is not None:
            self._changed(row.queue, [row.event(kind, now_ms, error=row.error)])

    def _record(
        self,
        row: Row,
        kind: EventKind,
        at_ms: int,
        *,
        error: ErrorInfo | None = None,
        detail: dict[str, object] | None = None,
        attempt: int | None = None,
        told: bool = False,
    ) -> None:
        """Store what the row itself will not be able to tell; `told`: watchers know it already."""
        event = ActivityEvent(
            activity_id=row.id,
            kind=kind,
            at=instant(at_ms),
            type=row.spec.type,
            state=row.state,
            attempt=row.attempt if attempt is None else attempt,
            worker_id=row.worker_id,
            error=error,
            detail=detail or {},
        )
        row.events.append(event)
        if not told:
            self._changed(row.queue, [event])


def _same_outcome(one: Acknowledgement, other: Acknowledgement, state: ActivityState) -> bool:
    """How long the handler ran is a note, not part of the outcome; nor is a delay that had no effect."""
    same = (one.kind, one.result, one.codec, one.error) == (
        other.kind,
        other.result,
        other.codec,
        other.error,
    )
    return same and (state.terminal or one.delay_ms == other.delay_ms)
