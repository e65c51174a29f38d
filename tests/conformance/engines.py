"""Real engines for tests: quick to notice, quick to stop, and a count of what they did."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

from runnerq import ActivityExecutor, WorkerEngine

if TYPE_CHECKING:
    from types import TracebackType

    from tests.conformance.stores import Store

    from runnerq import ActivityDefinition
    from runnerq.storage.ports import Storage

QUICK: dict[str, Any] = {
    "max_workers": 10,
    "heartbeat_interval": 0.2,
    "liveness_timeout": 10.0,
    "reaper_interval": 0.1,
    "shortest_poll": 0.01,
    "longest_poll": 0.1,
    "drain_timeout": 5.0,
}
"""Seconds. Liveness is left long: a machine that is busy with other tests must not look dead."""


class Engines:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.executor = ActivityExecutor(store.backend, store.queue)
        self._made = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._made.aclose()

    def make(
        self,
        *activities: ActivityDefinition[Any, Any],
        backend: Storage | None = None,
        **settings: Any,
    ) -> WorkerEngine:
        """An engine that was not started. Stopped without grace at the end of the test."""
        engine = WorkerEngine(
            backend or self.store.backend,
            activities=activities,
            queue_name=self.store.queue,
            **{**QUICK, **settings},
        )
        self._made.push_async_callback(engine.stop, grace=0)
        return engine

    async def start(
        self,
        *activities: ActivityDefinition[Any, Any],
        backend: Storage | None = None,
        **settings: Any,
    ) -> WorkerEngine:
        """A running engine."""
        engine = self.make(*activities, backend=backend, **settings)
        await engine.start()
        return engine


class Starts:
    """Counts starts per activity id, to tell one run from two."""

    def __init__(self) -> None:
        self.of: Counter[object] = Counter()

    def __call__(self, activity_id: object) -> int:
        self.of[activity_id] += 1
        return self.of[activity_id]
