"""The ways a handler can end, each told apart from the others."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import Rig, Signal

from runnerq import (
    ActivityContext,
    ActivityFailed,
    ActivityState,
    ActivityTimedOut,
    NonRetryable,
    Retry,
    RetryPolicy,
    Snooze,
    activity,
)
from runnerq.storage.records import ErrorKind, EventKind

if TYPE_CHECKING:
    from collections.abc import Callable


def raising(error: BaseException) -> Any:
    async def work() -> None:
        raise error

    return activity("work", retry=RetryPolicy(base=timedelta(seconds=30)))(work)


def raising_in_a_thread(error: BaseException) -> Any:
    def work() -> None:
        raise error

    return activity("work", retry=RetryPolicy(base=timedelta(seconds=30)))(work)


HOSTILE: list[Callable[[], BaseException]] = [
    lambda: ValueError("x"),
    lambda: TimeoutError("my own"),
    lambda: asyncio.CancelledError("my own"),
    lambda: SystemExit(3),
    KeyboardInterrupt,
    GeneratorExit,
    lambda: StopIteration(5),
    StopAsyncIteration,
    MemoryError,
    RecursionError,
    lambda: ExceptionGroup("g", [ValueError("x")]),
    lambda: BaseExceptionGroup("g", [SystemExit(1)]),
]


@pytest.mark.parametrize("make", [raising, raising_in_a_thread])
@pytest.mark.parametrize("error", HOSTILE, ids=lambda error: type(error()).__name__)
async def test_whatever_a_handler_raises_ends_its_attempt_and_nothing_else(
    rig: Rig, make: Any, error: Callable[[], BaseException]
) -> None:
    engine = await rig.start(make(error()), max_workers=1)
    futures = [await rig.enqueue("work") for _ in range(3)]
    for future in futures:
        snapshot = await rig.reaches(future, ActivityState.RETRYING)
        assert snapshot.error is not None
        assert snapshot.error.kind is ErrorKind.HANDLER
        assert snapshot.attempt == 1
    assert engine.busy == 0


async def test_a_timeout_error_of_the_handler_is_not_a_timeout_of_the_activity(rig: Rig) -> None:
    await rig.start(raising(TimeoutError("of the database")))
    with pytest.raises(ActivityFailed, match="of the database") as caught:
        await rig.result(await rig.enqueue("work", max_attempts=1))
    assert not isinstance(caught.value, ActivityTimedOut)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (NonRetryable("no"), ActivityState.FAILED),
        (Retry(after=60), ActivityState.RETRYING),
        (Retry(), ActivityState.RETRYING),
        (Snooze(60), ActivityState.SCHEDULED),
    ],
)
@pytest.mark.parametrize("make", [raising, raising_in_a_thread])
async def test_what_a_handler_asks_for_is_what_happens(
    rig: Rig, make: Any, error: Exception, state: ActivityState
) -> None:
    await rig.start(make(error))
    snapshot = await rig.reaches(await rig.enqueue("work"), state)
    assert snapshot.attempt == (0 if state is ActivityState.SCHEDULED else 1)


async def test_the_policy_decides_which_exceptions_are_final(rig: Rig) -> None:
    @activity("work", retry=RetryPolicy(non_retryable=(LookupError,)))
    async def work(final: bool) -> None:
        raise KeyError("x") if final else ValueError("x")

    await rig.start(work)
    await rig.reaches(await rig.enqueue("work", True), ActivityState.FAILED)
    await rig.reaches(await rig.enqueue("work", False), ActivityState.RETRYING)


async def test_a_wait_asked_for_is_never_shorter_than_asked(rig: Rig) -> None:
    @activity("work")
    async def work() -> None:
        raise Retry(after=timedelta(seconds=100, microseconds=1))

    await rig.start(work)
    snapshot = await rig.reaches(await rig.enqueue("work"), ActivityState.RETRYING)
    [event] = [
        event
        for event in await rig.memory.get_activity_events("q", snapshot.id)
        if event.kind is EventKind.RETRIED
    ]
    assert snapshot.ready_at - event.at == timedelta(seconds=100, milliseconds=1)


async def test_a_payload_that_does_not_fit_fails_for_good_before_the_handler_runs(
    rig: Rig,
) -> None:
    called = Signal()

    @activity("work")
    async def work(value: int) -> None:
        called.set()

    await rig.start(work)
    snapshot = await rig.reaches(await rig.enqueue("work", "five"), ActivityState.FAILED)
    assert snapshot.error is not None
    assert snapshot.error.kind is ErrorKind.PAYLOAD
    assert "payload: Expected `int`, got `str`" in snapshot.error.message
    assert not called.is_set


class Unstorable:
    def model_dump(self, *, mode: str) -> object:
        raise ConnectionError(mode)


@pytest.mark.parametrize(
    "result", [float("nan"), object(), {"a": ["\ud800"]}, Unstorable(), "x" * (17 * 1024 * 1024)]
)
async def test_a_result_that_cannot_be_stored_fails_its_attempt_with_the_reason(
    rig: Rig, result: object
) -> None:
    @activity("work")
    async def work() -> Any:
        return result

    await rig.start(work)
    snapshot = await rig.reaches(await rig.enqueue("work"), ActivityState.FAILED)
    assert snapshot.error is not None
    assert snapshot.error.kind is ErrorKind.RESULT
    assert snapshot.error.message.startswith("result")


async def test_a_handler_that_cancels_itself_costs_its_attempt_and_not_its_slot(rig: Rig) -> None:
    runs = 0

    @activity("work", retry=RetryPolicy(base=timedelta(seconds=30)))
    async def work(how: str) -> str:
        nonlocal runs
        runs += 1
        task = asyncio.current_task()
        assert task is not None
        match how:
            case "and waits":
                task.cancel()
                await asyncio.sleep(0)
            case "and returns":
                task.cancel()
            case "later":
                asyncio.get_running_loop().call_later(0.02, task.cancel)
            case _:
                pass
        return how

    await rig.start(work, max_workers=1)
    assert await rig.result(await rig.enqueue("work", "and returns")) == "and returns"
    await rig.reaches(await rig.enqueue("work", "and waits"), ActivityState.RETRYING)
    assert await rig.result(await rig.enqueue("work", "later")) == "later"
    fired = Signal()
    asyncio.get_running_loop().call_later(0.04, fired.set)
    await fired.wait()
    for _ in range(5):
        assert await rig.result(await rig.enqueue("work", "normal")) == "normal"
    assert runs == 8


async def test_a_cancellation_on_its_way_does_not_strike_the_next_attempt(rig: Rig) -> None:
    @activity("work")
    async def work(cancel: bool, ctx: ActivityContext) -> int:
        task = asyncio.current_task()
        assert task is not None
        if cancel:
            task.cancel()
        else:
            await asyncio.sleep(0)
        return ctx.attempt

    # Enough slots for one batch: a runner that returns at once takes the next claim by itself.
    futures = [await rig.enqueue("work", number % 2 == 0) for number in range(8)]
    await rig.start(work, max_workers=8)
    assert [await rig.result(future) for future in futures] == [1] * 8


async def test_a_slot_is_like_new_after_an_attempt_that_was_interrupted(rig: Rig) -> None:
    @activity("slow", timeout=0.02, retry=RetryPolicy(base=timedelta(seconds=30)))
    async def slow() -> None:
        await asyncio.sleep(60)

    @activity("group")
    async def group() -> str:
        async def fail() -> None:
            raise ValueError("x")

        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(fail())
                await asyncio.sleep(60)
        except ExceptionGroup as group:
            return str(group.exceptions[0])
        raise AssertionError("the group went well")

    await rig.start(slow, group, max_workers=1)
    slowly = await rig.enqueue("slow", timeout=0.02)
    await rig.reaches(slowly, ActivityState.RETRYING)
    future = await rig.enqueue("group", max_attempts=1)
    assert await rig.result(future) == "x"


async def test_what_a_handler_leaves_running_does_not_disturb_its_slot(rig: Rig) -> None:
    left: list[asyncio.Task[None]] = []

    @activity("work")
    async def work() -> None:
        async def fail() -> None:
            await asyncio.sleep(0)
            raise SystemError("nobody waits for me")

        left.append(asyncio.create_task(asyncio.sleep(3600)))
        left.append(asyncio.create_task(fail()))

    await rig.start(work, max_workers=1)
    for _ in range(3):
        await rig.result(await rig.enqueue("work"))
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def test_a_decorator_that_hides_an_async_handler_is_seen_through(rig: Rig) -> None:
    async def inner(value: int) -> int:
        await asyncio.sleep(0)
        return value + 1

    @activity("work")
    def work(value: int) -> Any:
        return inner(value)

    assert await rig.run(work, 4) == 5


async def test_a_handler_can_extend_its_lease_and_enqueue_further_work(rig: Rig) -> None:
    @activity("work")
    async def work(ctx: ActivityContext) -> str:
        before = (await rig.look(ctx.activity_id)).deadline
        await ctx.extend(3600)
        after = (await rig.look(ctx.activity_id)).deadline
        assert before is not None
        assert after is not None
        assert after - before > timedelta(seconds=3000)
        return str((await ctx.executor.activity("more").execute()).id)

    more = await rig.run(work)
    await eventually(lambda: more)
    page = await rig.memory.list_activities("q", ActivityState.PENDING)
    assert [str(item.id) for item in page.items] == [more]


async def test_a_type_without_a_handler_waits_for_one(rig: Rig) -> None:
    await rig.start(raising(ValueError("x")))
    other = await rig.enqueue("other")
    await rig.reaches(await rig.enqueue("work"), ActivityState.RETRYING)
    assert (await rig.look(other.id)).status is ActivityState.PENDING
