"""Engines for tests: on a memory backend that fails on demand, quick to notice, stopped at the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.conformance.eventually import eventually

from runnerq import ActivityExecutor, ActivityState, WorkerEngine
from runnerq.storage.memory import MemoryBackend
from runnerq.testing import FaultyBackend

if TYPE_CHECKING:
    from uuid import UUID

    from runnerq import ActivityDefinition, ActivityFuture
    from runnerq.storage.records import ActivitySnapshot, EventKind

QUICK: dict[str, Any] = {
    "max_workers": 10,
    "heartbeat_interval": 0.05,
    "liveness_timeout": 10.0,
    "reaper_interval": 0.05,
    "shortest_poll": 0.005,
    "longest_poll": 0.05,
    "drain_timeout": 5.0,
}
"""Seconds. Liveness is left long: a machine that is busy with other tests must not look dead."""


class Rig:
    def __init__(self) -> None:
        self.memory = MemoryBackend("q")
        self.backend = FaultyBackend(self.memory)
        self.executor = ActivityExecutor(self.memory)
        self._engines: list[WorkerEngine] = []

    def make(self, *activities: ActivityDefinition[Any, Any], **settings: Any) -> WorkerEngine:
        engine = WorkerEngine(self.backend, activities=activities, **{**QUICK, **settings})
        self._engines.append(engine)
        return engine

    async def start(
        self, *activities: ActivityDefinition[Any, Any], **settings: Any
    ) -> WorkerEngine:
        engine = self.make(*activities, **settings)
        await engine.start()
        return engine

    def forget(self, engine: WorkerEngine) -> None:
        """The test has stopped it."""
        self._engines.remove(engine)

    async def stop_all(self) -> None:
        self.backend.heal()
        for engine in self._engines:
            await engine.stop(grace=0)

    async def enqueue(
        self, name: str, payload: object = None, **options: Any
    ) -> ActivityFuture[Any]:
        builder = self.executor.activity(name).payload(payload)
        for option, value in options.items():
            builder = getattr(builder, option)(value)
        return await builder.execute()

    async def run(self, definition: ActivityDefinition[Any, Any], payload: object = None) -> Any:
        """Start an engine for one activity type and run one activity to its end."""
        await self.start(definition)
        return await self.result(await self.enqueue(definition.type, payload, max_attempts=1))

    async def result(self, future: ActivityFuture[Any]) -> Any:
        return await future.get_result(timeout=15)

    async def look(self, activity_id: UUID) -> ActivitySnapshot:
        return await self.memory.get_activity("q", activity_id)

    async def reaches(self, future: ActivityFuture[Any], state: ActivityState) -> ActivitySnapshot:
        """The activity, once it is in that state."""

        async def there() -> ActivitySnapshot | None:
            snapshot = await self.look(future.id)
            return snapshot if snapshot.status is state else None

        found = await eventually(there)
        assert found is not None
        return found

    async def events(self, future: ActivityFuture[Any]) -> list[EventKind]:
        return [event.kind for event in await self.memory.get_activity_events("q", future.id)]


class Signal:
    """An event that a handler sets and a test waits for, with a deadline."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self) -> None:
        async with asyncio.timeout(15):
            await self._event.wait()
