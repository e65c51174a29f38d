"""The seams that a backend implements and that everything else plugs into.

Every call names its queue. Batches answer per item, in input order. Errors: `BackendUnavailable` when
the backend did not answer (nothing is then known about the call's effect, and every call here may be
repeated), other `StorageError`s when it refused. A failed read raises; it never answers zero or empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from uuid import UUID

    from runnerq.storage.records import (
        Acknowledged,
        Acknowledgement,
        ActivityEvent,
        ActivityResult,
        ActivitySnapshot,
        ActivitySpec,
        ActivityState,
        Claim,
        ClaimRef,
        ClaimRequest,
        DecisionRecord,
        EngineInfo,
        Enqueued,
        Heartbeat,
        HeartbeatReply,
        Page,
        PodRecord,
        QueueDemand,
        QueueStats,
        Reaped,
        StreamGap,
    )


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend can do. The engine refuses at start what is missing; nothing is faked."""

    name: str
    native_schedule: bool = False
    """Due work is claimable by itself; False: `process_scheduled` must be called. A backend has to say
    so: one that forgets is promoted for nothing, while the other way round due work would never run."""
    priorities: bool = True
    type_filter: bool = True
    durable: bool = True
    """Survives the death of every process."""
    cross_process: bool = True
    """Several processes may work on one queue."""
    transactional_enqueue: bool = False


class WorkSignal(Protocol):
    """Says that a queue may have new claimable work. A hint: it may fire for nothing, and a waiter
    must poll now and then all the same."""

    def version(self) -> int:
        """Take before the claim, hand to `wait` after it: a signal in between is not missed."""
        ...

    async def wait(self, seen: int, timeout: float) -> int:
        """Return once the version differs from `seen`, at the latest after `timeout` seconds."""
        ...


class ResultStorage(Protocol):
    async def get_result(self, queue: str, activity_id: UUID) -> ActivityResult | None:
        """How it ended; None while it has not. Raises ActivityNotFound for an unknown id."""
        ...

    async def wait_for_result(
        self, queue: str, activity_id: UUID, timeout: float
    ) -> ActivityResult | None:
        """Like `get_result`, but waits up to `timeout` seconds for the end; pushed where the backend
        can push, with polling as the fallback."""
        ...


class QueueStorage(ResultStorage, Protocol):
    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def default_queue(self) -> str: ...

    async def open(self) -> None:
        """Connect and verify the schema. Idempotent. Raises SchemaMismatch, BackendUnavailable."""
        ...

    async def close(self) -> None: ...

    async def migrate(self) -> list[str]:
        """Bring the schema up to date; names of the steps applied. Safe when several do it at once."""
        ...

    async def enqueue(self, queue: str, specs: Sequence[ActivitySpec]) -> list[Enqueued]:
        """Store all in one atomic step, idempotency included. Repeating a spec (same id) is harmless.
        Among specs of one call that share a key, the first wins the key."""
        ...

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        """Up to `limit` due activities of the given types, best first. Never waits. A cordoned or
        unregistered engine gets none."""
        ...

    async def acknowledge(
        self, queue: str, acknowledgements: Sequence[Acknowledgement]
    ) -> list[Acknowledged]:
        """End attempts, mixed outcomes, each atomic with its result or error, fenced by its token."""
        ...

    async def extend_lease(self, queue: str, claims: Sequence[ClaimRef], by_ms: int) -> list[bool]:
        """Move each deadline to now + by_ms if that is later; False: the claim is lost."""
        ...

    async def still_held(self, queue: str, claims: Sequence[ClaimRef]) -> list[bool]:
        """Which claims are still current; what an engine asks after a reconnect."""
        ...

    async def reap(self, queue: str, *, limit: int, liveness_ms: int) -> list[Reaped]:
        """Take back work whose deadline has passed or whose engine is gone: unknown, stopped, or
        silent for `liveness_ms`. Attempts left (or no limit): pending, owner cleared; else dead
        letter with the error kind worker_lost. Skips what another reaper holds."""
        ...

    async def process_scheduled(self, queue: str, *, limit: int) -> int:
        """Promote due work, for backends without `native_schedule`; others answer 0."""
        ...

    async def register_engine(self, queue: str, engine: EngineInfo) -> None: ...

    async def heartbeat(self, queue: str, beat: Heartbeat) -> HeartbeatReply: ...

    def heartbeat_blocking(self, queue: str, beat: Heartbeat) -> HeartbeatReply:
        """The same from a thread of the caller, on a connection of its own, without the event loop:
        liveness must not depend on the loop. Called from one thread at a time."""
        ...

    async def retire_engine(self, queue: str, engine_id: UUID) -> None:
        """The engine has stopped; claims it still holds are reapable at once."""
        ...

    def work_signal(self, queue: str) -> WorkSignal: ...


class InspectionStorage(ResultStorage, Protocol):
    async def stats(self, queue: str) -> QueueStats: ...

    async def list_activities(
        self,
        queue: str,
        state: ActivityState,
        *,
        limit: int = 50,
        cursor: str | None = None,
        activity_type: str | None = None,
    ) -> Page:
        """Newest first, by keyset; a cursor that is not ours raises ValueError."""
        ...

    async def get_activity(self, queue: str, activity_id: UUID) -> ActivitySnapshot:
        """Raises ActivityNotFound."""
        ...

    async def get_activity_events(self, queue: str, activity_id: UUID) -> list[ActivityEvent]:
        """The timeline, oldest first: stored events and those the row itself tells."""
        ...

    async def list_queues(self) -> list[str]: ...

    def event_stream(
        self, queue: str
    ) -> AbstractAsyncContextManager[AsyncIterator[ActivityEvent | StreamGap]]:
        """Transitions of all processes from now on, while the context is open."""
        ...

    async def demand(self, queues: Sequence[str], *, horizon_ms: int) -> list[QueueDemand]:
        """What the queues ask for, in input order, in one bounded read with the backend's clock."""
        ...

    async def requeue_dead_letters(
        self, queue: str, activity_ids: Sequence[UUID], *, actor: str
    ) -> list[bool]:
        """Back to pending with all attempts again; False: not in the dead letter."""
        ...


class FleetStorage(Protocol):
    """What operator, workers and console tell each other."""

    async def cordon(self, queue: str, engine_ids: Sequence[UUID], *, cordoned: bool) -> None:
        """Once this returns, a cordoned engine claims nothing more."""
        ...

    async def record_decision(self, decision: DecisionRecord) -> None: ...

    async def decisions(
        self, queue: str, *, pool: str | None = None, limit: int = 50
    ) -> list[DecisionRecord]:
        """Newest first, of the last 24 h."""
        ...

    async def record_pods(self, queue: str, pods: Sequence[PodRecord]) -> None:
        """Replaces what was known of this queue's pods."""
        ...

    async def pods(self, queue: str) -> list[PodRecord]: ...


class Storage(QueueStorage, InspectionStorage, FleetStorage, Protocol):
    """All of it: what each built-in backend implements."""
