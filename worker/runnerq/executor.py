"""ActivityExecutor: the enqueueing side. What an app holds, and what a handler finds in its context.

Knows no handlers. An enqueue whose answer was lost is repeated under the same id, so a hiccup of the
backend neither loses an activity nor stores it twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from runnerq.builder import ActivityBuilder
from runnerq.errors import BackendUnavailable, DuplicateActivity, InvalidActivity
from runnerq.future import ActivityFuture
from runnerq.ids import IdSource
from runnerq.metrics import guarded
from runnerq.payload import Decoder
from runnerq.storage.records import EnqueueStatus

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from runnerq.metrics import MetricsSink
    from runnerq.storage.ports import Storage
    from runnerq.storage.records import ActivitySpec, Enqueued

R = TypeVar("R")
log = logging.getLogger(__name__)

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


class ActivityExecutor:
    """Enqueues activities into one queue of one backend.

    `enqueue_timeout`: seconds for which an unreachable backend is tried again before
    BackendUnavailable is raised. `owns_backend`: `close()` closes the backend too.
    """

    def __init__(
        self,
        backend: Storage,
        queue: str | None = None,
        *,
        metrics: MetricsSink | None = None,
        enqueue_timeout: float = 5.0,
        owns_backend: bool = False,
    ) -> None:
        self.backend = backend
        self.queue = queue if queue is not None else backend.default_queue
        self._metrics = guarded(metrics)
        self._enqueue_timeout = enqueue_timeout
        self._owns_backend = owns_backend
        self._ids = IdSource()

    def activity(self, activity_type: str) -> ActivityBuilder[Any]:
        """Start describing an activity of this type; its result comes back as plain JSON values."""
        return ActivityBuilder(type=activity_type, executor=self)

    async def execute(self, builder: ActivityBuilder[R]) -> ActivityFuture[R]:
        """Enqueue one. Raises DuplicateActivity, BackendUnavailable."""
        [future] = await self.execute_many([builder])
        if future.status is EnqueueStatus.DUPLICATE and builder.idempotency is not None:
            raise DuplicateActivity(builder.type, builder.idempotency.key, future.id)
        return future

    async def execute_many(self, builders: Sequence[ActivityBuilder[R]]) -> list[ActivityFuture[R]]:
        """Enqueue all in one atomic step; a future per builder, in input order.

        Each future's `status` says what became of its item (created, existing, duplicate); awaiting
        a duplicate raises DuplicateActivity.
        """
        builders = list(builders)
        if not builders:
            return []
        for place, builder in enumerate(builders):
            if not isinstance(builder, ActivityBuilder):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidActivity(
                    f"builders[{place}]",
                    f"{_short(builder)} is no builder; make one with executor.activity(type).payload(...)",
                )
        specs = [builder.spec(self._ids.next()) for builder in builders]
        started = time.perf_counter()
        stored = await self._enqueue(specs)
        self._count(builders, stored, time.perf_counter() - started)
        return [
            ActivityFuture(
                self.backend,
                self.queue,
                outcome.id,
                decoder=builder.decoder,
                status=outcome.status,
                duplicate_of=(
                    (builder.type, builder.idempotency.key)
                    if outcome.status is EnqueueStatus.DUPLICATE and builder.idempotency
                    else None
                ),
            )
            for builder, outcome in zip(builders, stored, strict=True)
        ]

    def future(
        self, activity_id: UUID | str, result_type: type[R] | Any = Any
    ) -> ActivityFuture[R]:
        """The future of an activity enqueued elsewhere or earlier, from its id alone (or the id's
        text, as it comes out of a URL). Raises InvalidActivity for what is no id."""
        return ActivityFuture(
            self.backend, self.queue, _id_of(activity_id), decoder=Decoder(result_type)
        )

    async def close(self) -> None:
        if self._owns_backend:
            await self.backend.close()

    async def __aenter__(self) -> ActivityExecutor:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _enqueue(self, specs: list[ActivitySpec]) -> list[Enqueued]:
        deadline = time.monotonic() + self._enqueue_timeout
        pause = FIRST_PAUSE
        while True:
            try:
                return await self.backend.enqueue(self.queue, specs)
            except BackendUnavailable as error:
                if time.monotonic() + pause >= deadline:
                    raise
                log.warning("enqueue of %d activities is repeated: %s", len(specs), error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _count(
        self, builders: Sequence[ActivityBuilder[Any]], stored: list[Enqueued], seconds: float
    ) -> None:
        self._metrics.observe_duration(
            "runnerq_enqueue_duration_seconds", seconds, {"queue": self.queue, "outcome": "ok"}
        )
        created: dict[tuple[str, str], int] = {}
        for builder, outcome in zip(builders, stored, strict=True):
            if outcome.status is EnqueueStatus.CREATED:
                key = (builder.type, builder.options.priority.name.lower())
                created[key] = created.get(key, 0) + 1
            elif builder.idempotency is not None:
                self._metrics.inc_counter(
                    "runnerq_enqueue_deduplicated_total",
                    1,
                    {
                        "queue": self.queue,
                        "type": builder.type,
                        "behavior": builder.idempotency.behavior,
                    },
                )
        for (activity_type, priority), count in created.items():
            self._metrics.inc_counter(
                "runnerq_activities_enqueued_total",
                count,
                {"queue": self.queue, "type": activity_type, "priority": priority},
            )


def _id_of(value: UUID | str) -> UUID:
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidActivity(
            "activity_id", f"{_short(value)} is not a UUID, as future.id is"
        ) from error


def _short(value: object) -> str:
    return repr(value)[:80]
