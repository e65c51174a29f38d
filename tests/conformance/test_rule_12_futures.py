"""Rule 12: a future answers, in whatever way its activity ends, also in another process."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import UUID

import pytest
from tests.conformance.eventually import WITHIN
from tests.conformance.station import outcome

from runnerq import (
    ActivityExecutor,
    ActivityFailed,
    ActivityNotFound,
    ActivityTimedOut,
    NonRetryable,
    RetryPolicy,
    activity,
)
from runnerq.storage.records import ActivityState, OutcomeKind

if TYPE_CHECKING:
    from tests.conformance.engines import Engines
    from tests.conformance.station import Station

    from runnerq import ActivityFuture

AT_ONCE = RetryPolicy(base=timedelta(0))


class Sum(TypedDict):
    total: int


async def test_a_future_is_awaitable_typed_and_as_often_as_one_likes(engines: Engines) -> None:
    @activity("add")
    async def add(numbers: list[int]) -> Sum:
        return {"total": sum(numbers)}

    await engines.start(add)
    future = await add.payload([1, 2, 3]).on(engines.executor).execute()
    assert await future == {"total": 6}
    assert await future.get_result(timeout=WITHIN) == {"total": 6}
    assert await asyncio.gather(future.get_result(), future.get_result()) == [{"total": 6}] * 2


async def test_a_future_can_be_made_from_an_id_by_whoever_knows_it(
    station: Station, engines: Engines
) -> None:
    @activity("add")
    async def add(numbers: list[int]) -> Sum:
        return {"total": sum(numbers)}

    future = await add.payload([4, 5]).on(engines.executor).execute()
    elsewhere = ActivityExecutor(await station.store.another(), station.queue)
    rebuilt = elsewhere.future(UUID(str(future.id)), Sum)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(rebuilt.get_result(timeout=WITHIN))
        await engines.start(add)
        assert await waiting == {"total": 9}


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_the_end_is_pushed_to_whoever_waits(station: Station, elsewhere: bool) -> None:
    backend = await station.store.another() if elsewhere else station.backend
    activity_id = await station.enqueue()
    claim = await station.claim_one()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(
            backend.wait_for_result(station.queue, activity_id, timeout=WITHIN)
        )
        while not waiting.done() and not await _is_waiting():
            pass
        await station.end(claim)
        before = time.monotonic()
        ended = await waiting
    assert ended is not None
    assert ended.result == b'"done"'
    # Polling alone would need the backend's fallback interval, 2 s.
    assert time.monotonic() - before < 1.5


async def _is_waiting() -> bool:
    """Let other tasks reach their waits."""
    for _ in range(20):
        await asyncio.sleep(0.005)
    return True


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (OutcomeKind.COMPLETED, ActivityState.COMPLETED),
        (OutcomeKind.FAILED, ActivityState.FAILED),
        (OutcomeKind.RETRIED, ActivityState.DEAD_LETTER),
    ],
)
async def test_every_end_wakes_every_waiter(
    station: Station, kind: OutcomeKind, state: ActivityState
) -> None:
    activity_id = await station.enqueue(max_attempts=1)
    claim = await station.claim_one()
    async with asyncio.TaskGroup() as tasks:
        waits = [
            tasks.create_task(station.backend.wait_for_result(station.queue, activity_id, WITHIN))
            for _ in range(10)
        ]
        await station.end(claim, kind)
    assert {wait.result().state for wait in waits if wait.result()} == {state}  # pyright: ignore[reportOptionalMemberAccess]


async def test_a_lost_worker_wakes_the_waiter_of_its_dead_letter(station: Station) -> None:
    activity_id = await station.enqueue(max_attempts=1)
    await station.claim_one()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(
            station.backend.wait_for_result(station.queue, activity_id, WITHIN)
        )
        await station.silence(15)
        await station.reap()
    ended = waiting.result()
    assert ended is not None
    assert ended.state is ActivityState.DEAD_LETTER


async def test_waiting_ends_with_nothing_when_its_time_is_over(station: Station) -> None:
    activity_id = await station.enqueue()
    started = time.monotonic()
    assert await station.backend.wait_for_result(station.queue, activity_id, 0.2) is None
    assert 0.2 <= time.monotonic() - started < 10
    assert await station.backend.wait_for_result(station.queue, activity_id, 0) is None


async def test_an_end_before_the_wait_is_answered_at_once(station: Station) -> None:
    activity_id = await station.enqueue()
    await station.end(await station.claim_one())
    ended = await station.backend.wait_for_result(station.queue, activity_id, 0)
    assert ended is not None


async def test_a_retry_is_not_an_end(station: Station) -> None:
    activity_id = await station.enqueue()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(
            station.backend.wait_for_result(station.queue, activity_id, WITHIN)
        )
        await station.retry(await station.claim_one())
        await station.end(await station.claim_one(), OutcomeKind.RELEASED)
        assert not waiting.done()
        await station.end(await station.claim_one(), result=b'"third"')
    ended = waiting.result()
    assert ended is not None
    assert ended.result == b'"third"'


async def test_a_future_outlives_retries(engines: Engines) -> None:
    runs = 0

    @activity("flaky", retry=AT_ONCE)
    async def flaky() -> int:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise RuntimeError("not yet")
        return runs

    await engines.start(flaky)
    future = await flaky.payload(None).on(engines.executor).execute()
    assert await future.get_result(timeout=WITHIN) == 3


async def test_a_failure_is_raised_with_the_id_and_the_error(engines: Engines) -> None:
    @activity("broken")
    async def broken() -> None:
        raise NonRetryable("no such account")

    await engines.start(broken)
    future = await broken.payload(None).on(engines.executor).execute()
    with pytest.raises(ActivityFailed) as ended:
        await future.get_result(timeout=WITHIN)
    assert ended.value.activity_id == future.id
    assert str(future.id) in str(ended.value)
    assert ended.value.error is not None
    assert ended.value.error.message == "no such account"
    assert not isinstance(ended.value, ActivityTimedOut)


async def test_a_future_of_a_dead_letter_does_not_hang(engines: Engines) -> None:
    @activity("broken", max_attempts=2, retry=AT_ONCE)
    async def broken() -> None:
        raise ValueError("still no")

    await engines.start(broken)
    future = await broken.payload(None).on(engines.executor).execute()
    with pytest.raises(ActivityFailed, match=r"used up its attempts.*still no"):
        await future.get_result(timeout=WITHIN)


async def test_waiting_longer_than_asked_is_the_callers_timeout_not_the_activitys(
    station: Station, engines: Engines
) -> None:
    future = await engines.executor.activity("work").execute()
    with pytest.raises(TimeoutError) as over:
        await future.get_result(timeout=0.1)
    assert not isinstance(over.value, ActivityTimedOut)
    assert not await future.done()
    await station.end(await station.claim_one())
    assert await future.get_result(timeout=WITHIN) == "done"
    assert await future.done()


async def test_a_future_of_an_unknown_id_says_so(station: Station, engines: Engines) -> None:
    future: ActivityFuture[Any] = engines.executor.future(station.new_id())
    with pytest.raises(ActivityNotFound):
        await future.get_result(timeout=WITHIN)


async def test_a_waiter_that_is_cancelled_disturbs_nobody(station: Station) -> None:
    activity_id = await station.enqueue()
    claim = await station.claim_one()
    async with asyncio.TaskGroup() as tasks:
        gone = tasks.create_task(
            station.backend.wait_for_result(station.queue, activity_id, WITHIN)
        )
        stays = tasks.create_task(
            station.backend.wait_for_result(station.queue, activity_id, WITHIN)
        )
        await _is_waiting()
        gone.cancel()
        await station.end(claim)
    assert stays.result() is not None
    assert gone.cancelled()


async def test_two_hundred_futures_at_once_all_answer(station: Station) -> None:
    await station.enqueue_all(*(station.spec() for _ in range(200)))
    claims = await station.claim(200)
    async with asyncio.TaskGroup() as tasks:
        waits = [
            tasks.create_task(station.backend.wait_for_result(station.queue, one.id, WITHIN))
            for one in claims
        ]
        await asyncio.sleep(0)
        for start in range(0, 200, 50):
            await station.acknowledge(*map(outcome, claims[start : start + 50]))
    assert all(wait.result() is not None for wait in waits)


async def test_the_work_signal_wakes_an_idle_engine(station: Station) -> None:
    for backend in (station.backend, await station.store.another()):
        signal = backend.work_signal(station.queue)
        seen = signal.version()
        await station.enqueue()
        async with asyncio.timeout(WITHIN):
            assert await signal.wait(seen, timeout=WITHIN) != seen


async def test_a_work_signal_lets_go_when_its_time_is_over(station: Station) -> None:
    signal = station.backend.work_signal(station.queue)
    async with asyncio.timeout(WITHIN):
        await signal.wait(signal.version(), timeout=0.05)
