"""What a handler knows of the attempt it runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from runnerq import ActivityContext, ActivityExecutor
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.records import Claim, Priority

if TYPE_CHECKING:
    from runnerq.durations import Duration

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Keeper:
    def __init__(self) -> None:
        self.extended: list[tuple[Claim, Any]] = []

    async def extend(self, claim: Claim, by: Duration) -> None:
        self.extended.append((claim, by))


def claim() -> Claim:
    return Claim(
        id=UUID(int=1),
        token=UUID(int=2),
        queue="q",
        type="work",
        payload=b"null",
        codec="json",
        priority=Priority.HIGH,
        attempt=2,
        max_attempts=3,
        timeout_ms=1000,
        created_at=AT,
        ready_at=AT,
        claimed_at=AT,
        deadline=AT,
        headers={"trace": "x"},
    )


async def test_a_context_tells_of_its_claim_and_not_its_token() -> None:
    keeper, executor = Keeper(), ActivityExecutor(MemoryBackend("q"))
    context = ActivityContext(claim(), executor, keeper)
    assert (context.activity_id, context.activity_type, context.queue) == (UUID(int=1), "work", "q")
    assert (context.attempt, context.max_attempts) == (2, 3)
    assert (context.created_at, context.deadline, context.headers) == (AT, AT, {"trace": "x"})
    assert context.executor is executor
    assert context.metadata == {
        "activity_id": str(UUID(int=1)),
        "activity_type": "work",
        "attempt": 2,
    }
    assert not [name for name in dir(context) if "token" in name]
    await context.extend(5)
    assert keeper.extended == [(claim(), 5)]


def test_a_context_says_when_its_attempt_was_interrupted() -> None:
    context = ActivityContext(claim(), ActivityExecutor(MemoryBackend("q")), Keeper())
    assert not context.cancelled
    context.cancel()
    assert context.cancelled
