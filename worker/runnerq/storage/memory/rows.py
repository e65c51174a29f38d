"""A stored activity of the memory backend, and the views of it that the ports hand out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runnerq.clock import instant, optional_instant
from runnerq.storage.lanes import RETRIED_CAP
from runnerq.storage.records import (
    Acknowledgement,
    ActivityEvent,
    ActivityResult,
    ActivitySnapshot,
    ActivitySpec,
    ActivityState,
    Claim,
    ErrorInfo,
    EventKind,
)
from runnerq.storage.timeline import CLAIMED_AT_MS, READY_AT_MS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID


@dataclass(slots=True)
class Row:
    queue: str
    spec: ActivitySpec
    state: ActivityState
    created_ms: int
    due_ms: int
    attempt: int = 0
    token: UUID | None = None
    """Of the current attempt; None while nobody holds it."""
    engine_id: UUID | None = None
    worker_id: str | None = None
    claimed_ms: int | None = None
    deadline_ms: int | None = None
    finished_ms: int | None = None
    result: bytes | None = None
    result_codec: str = "json"
    error: ErrorInfo | None = None
    acknowledged: tuple[Acknowledgement, ActivityState] | None = None
    """The last acknowledgement and the state it led to, by which a repetition is known."""
    events: list[ActivityEvent] = field(default_factory=list[ActivityEvent])

    @property
    def id(self) -> UUID:
        return self.spec.id

    @property
    def retried(self) -> int:
        return min(self.attempt, RETRIED_CAP)

    def give_up_owner(self) -> None:
        """Nobody holds it any more; `worker_id` keeps naming the last owner."""
        self.token = self.engine_id = self.deadline_ms = None

    def claim(self) -> Claim:
        token, claimed_ms, deadline_ms = self.token, self.claimed_ms, self.deadline_ms
        if token is None or claimed_ms is None or deadline_ms is None:
            raise AssertionError(f"activity {self.id} is not held")
        spec = self.spec
        return Claim(
            id=self.id,
            token=token,
            queue=self.queue,
            type=spec.type,
            payload=spec.payload,
            codec=spec.codec,
            priority=spec.priority,
            attempt=self.attempt,
            max_attempts=spec.max_attempts,
            timeout_ms=spec.timeout_ms,
            created_at=instant(self.created_ms),
            ready_at=instant(self.due_ms),
            claimed_at=instant(claimed_ms),
            deadline=instant(deadline_ms),
            headers=spec.headers,
            root_id=spec.root_id,
            parent_id=spec.parent_id,
            depth=spec.depth,
        )

    def ending(self) -> ActivityResult | None:
        """How it ended; None while it has not."""
        if not self.state.terminal:
            return None
        return ActivityResult(
            id=self.id,
            state=self.state,
            result=self.result,
            codec=self.result_codec,
            error=self.error,
            finished_at=optional_instant(self.finished_ms),
        )

    def snapshot(self) -> ActivitySnapshot:
        spec = self.spec
        return ActivitySnapshot(
            id=self.id,
            queue=self.queue,
            type=spec.type,
            status=self.state,
            priority=spec.priority,
            payload=spec.payload,
            codec=spec.codec,
            attempt=self.attempt,
            max_attempts=spec.max_attempts,
            timeout_ms=spec.timeout_ms,
            created_at=instant(self.created_ms),
            ready_at=instant(self.due_ms),
            claimed_at=optional_instant(self.claimed_ms),
            deadline=optional_instant(self.deadline_ms),
            finished_at=optional_instant(self.finished_ms),
            worker_id=self.worker_id,
            idempotency_key=spec.idempotency.key if spec.idempotency else None,
            result=self.result,
            result_codec=self.result_codec,
            error=self.error,
            headers=spec.headers,
            root_id=spec.root_id,
            parent_id=spec.parent_id,
        )

    def event(
        self,
        kind: EventKind,
        at_ms: int,
        *,
        error: ErrorInfo | None = None,
        detail: Mapping[str, object] | None = None,
    ) -> ActivityEvent:
        return ActivityEvent(
            activity_id=self.id,
            kind=kind,
            at=instant(at_ms),
            type=self.spec.type,
            state=self.state,
            attempt=self.attempt,
            worker_id=self.worker_id,
            error=error,
            detail=detail or {},
        )

    def attempt_detail(self) -> dict[str, object]:
        """What an event that ends this attempt must carry for the timeline."""
        return {CLAIMED_AT_MS: self.claimed_ms, READY_AT_MS: self.due_ms}
