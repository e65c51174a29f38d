"""The queue under fire: enqueues the steps and counts what became of them, from the backend alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from tests.chaos.apps.steps import Done, Step
from tests.conformance.eventually import eventually

from runnerq import ActivityExecutor, ActivityState
from runnerq.storage.records import EventKind

if TYPE_CHECKING:
    from uuid import UUID

    from runnerq.storage.ports import Storage
    from runnerq.storage.records import ActivitySnapshot

QUEUE = "chaos"


@dataclass(frozen=True)
class Field:
    backend: Storage
    environment: dict[str, str]
    """What a worker process needs to find the backend."""

    async def enqueue(
        self, count: int, *, seconds: float, first: int = 0, max_attempts: int = 5
    ) -> list[UUID]:
        executor = ActivityExecutor(self.backend, QUEUE)
        steps = executor.activity("step").timeout(600).max_attempts(max_attempts)
        futures = await executor.execute_many(
            [steps.payload(Step(number, seconds)) for number in range(first, first + count)]
        )
        return [future.id for future in futures]

    async def completed(self) -> int:
        return (await self.backend.stats(QUEUE)).counts[ActivityState.COMPLETED]

    async def until_completed(self, count: int, *, within: float) -> None:
        async def enough() -> bool:
            return await self.completed() >= count

        await eventually(enough, within=within)

    async def until_engines(self, count: int) -> None:
        async def there() -> bool:
            [demand] = await self.backend.demand([QUEUE], horizon_ms=0)
            return len(demand.engines) == count

        await eventually(there, within=60)

    async def snapshot(self, activity_id: UUID) -> ActivitySnapshot:
        return await self.backend.get_activity(QUEUE, activity_id)

    async def until_ended(self, activity_id: UUID, *, within: float) -> ActivitySnapshot:
        async def ended() -> bool:
            return (await self.snapshot(activity_id)).status.terminal

        await eventually(ended, within=within)
        return await self.snapshot(activity_id)

    async def everything(self) -> dict[UUID, ActivitySnapshot]:
        """All that is stored of the queue. Fails when something is stored twice."""
        found: list[ActivitySnapshot] = []
        for state in ActivityState:
            cursor: str | None = None
            while True:
                page = await self.backend.list_activities(QUEUE, state, limit=200, cursor=cursor)
                found += page.items
                cursor = page.next_cursor
                if cursor is None:
                    break
        by_id = {item.id: item for item in found}
        assert len(by_id) == len(found)
        return by_id

    async def assert_all_completed_once(
        self, ids: list[UUID], runs: dict[int, list[tuple[int, int]]]
    ) -> Counter[int]:
        """Nothing lost, nothing twice: every activity is there once, completed once, with the result of
        the very run that was acknowledged. Answers how many took how many attempts."""
        stored = await self.everything()
        assert stored.keys() == set(ids)
        attempts: Counter[int] = Counter()
        for number, activity_id in enumerate(ids):
            snapshot = stored[activity_id]
            assert snapshot.status is ActivityState.COMPLETED
            result = await self.backend.get_result(QUEUE, activity_id)
            assert result is not None
            assert result.result is not None
            done = msgspec.json.decode(result.result, type=Done)
            assert done.number == number
            assert done.attempt == snapshot.attempt
            assert (done.attempt, done.pid) in runs[number]
            events = [
                event.kind for event in await self.backend.get_activity_events(QUEUE, activity_id)
            ]
            assert events.count(EventKind.COMPLETED) == 1
            assert events[-1] is EventKind.COMPLETED
            attempts[snapshot.attempt] += 1
        return attempts
