"""Awaiting the end of an activity, in every way it can end."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from runnerq import (
    ActivityCancelled,
    ActivityExecutor,
    ActivityFailed,
    ActivityNotFound,
    ActivityTimedOut,
    BackendUnavailable,
    NonRetryable,
    ResultExpired,
    activity,
)
from runnerq.future import ActivityFuture
from runnerq.payload import Decoder, PayloadMismatch
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.records import ActivityResult, ActivityState, ErrorInfo, ErrorKind
from runnerq.testing import FaultyBackend, drain


class Receipt(msgspec.Struct):
    number: int


@activity("receipt")
async def receipt(number: int) -> Receipt:
    return Receipt(number)


@activity("refuse")
async def refuse() -> None:
    raise NonRetryable("never")


@activity("fail", max_attempts=1)
async def fail() -> None:
    raise ValueError("broken")


@activity("slow", max_attempts=1, timeout=0.01)
async def slow() -> None:
    await asyncio.sleep(60)


ALL = (receipt, refuse, fail, slow)


@pytest.fixture
def backend() -> FaultyBackend:
    return FaultyBackend(MemoryBackend())


@pytest.fixture
def executor(backend: FaultyBackend) -> ActivityExecutor:
    return ActivityExecutor(backend)


async def test_a_result_comes_back_as_the_handlers_type_however_often_it_is_awaited(
    backend: FaultyBackend, executor: ActivityExecutor
) -> None:
    future = await receipt.payload(5).on(executor).execute()
    assert not await future.done()
    await drain(backend, ALL)
    assert await future == Receipt(5)
    assert await asyncio.gather(future, future) == [Receipt(5), Receipt(5)]
    assert await future.done()


async def test_a_future_is_made_from_an_id_alone(
    backend: FaultyBackend, executor: ActivityExecutor
) -> None:
    future = await receipt.payload(5).on(executor).execute()
    await drain(backend, ALL)
    assert await executor.future(future.id, Receipt) == Receipt(5)
    assert await executor.future(future.id) == {"number": 5}
    with pytest.raises(PayloadMismatch, match=r"^result: "):
        await executor.future(future.id, int)


async def test_a_waiting_future_is_woken_by_the_end(
    backend: FaultyBackend, executor: ActivityExecutor
) -> None:
    future = await receipt.payload(5).on(executor).execute()
    waiting = asyncio.ensure_future(future.get_result(timeout=10))
    await drain(backend, ALL)
    assert await waiting == Receipt(5)


async def test_a_failure_is_raised_with_the_handlers_error(
    backend: FaultyBackend, executor: ActivityExecutor
) -> None:
    failed = await executor.activity("refuse").execute()
    exhausted = await fail.payload(None).on(executor).execute()
    timed_out = await slow.payload(None).on(executor).execute()
    await drain(backend, ALL)
    with pytest.raises(ActivityFailed, match=r"failed: .*NonRetryable: never") as caught:
        await failed
    assert caught.value.activity_id == failed.id
    with pytest.raises(ActivityFailed, match="used up its attempts: ValueError: broken") as caught:
        await exhausted
    assert caught.value.error is not None
    assert "broken" in caught.value.error.traceback
    with pytest.raises(ActivityTimedOut, match=r"0\.01 s"):
        await timed_out


@pytest.mark.parametrize("timeout", [0, 0.01, timedelta(milliseconds=10), -1])
async def test_a_wait_ends_at_its_timeout(executor: ActivityExecutor, timeout: Any) -> None:
    future = await executor.activity("nobody").execute()
    with pytest.raises(TimeoutError, match=str(future.id)):
        await future.get_result(timeout)


async def test_an_unknown_id_is_an_error_at_once(executor: ActivityExecutor) -> None:
    unknown = uuid4()
    with pytest.raises(ActivityNotFound, match=str(unknown)):
        await executor.future(unknown)


async def test_an_outage_is_waited_through(
    backend: FaultyBackend, executor: ActivityExecutor
) -> None:
    future = await receipt.payload(5).on(executor).execute()
    await drain(backend, ALL)
    backend.fail("wait_for_result", times=2)
    assert await future == Receipt(5)
    assert backend.calls["wait_for_result"] == 3


async def test_an_outage_longer_than_the_timeout_is_told(
    backend: FaultyBackend, executor: ActivityExecutor
) -> None:
    future = await executor.activity("nobody").execute()
    backend.cut_off()
    with pytest.raises(BackendUnavailable):
        await future.get_result(timeout=0.15)


class Ended:
    """A storage that knows one ending."""

    def __init__(self, state: ActivityState, error: ErrorInfo | None = None) -> None:
        self.state = state
        self.error = error

    async def get_result(self, queue: str, activity_id: Any) -> ActivityResult:
        del queue
        return ActivityResult(id=activity_id, state=self.state, error=self.error)

    async def wait_for_result(
        self, queue: str, activity_id: Any, timeout: float
    ) -> ActivityResult | None:
        del timeout
        return await self.get_result(queue, activity_id)


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        (Ended(ActivityState.COMPLETED), ResultExpired),
        (Ended(ActivityState.CANCELLED), ActivityCancelled),
        (Ended(ActivityState.FAILED), ActivityFailed),
        (
            Ended(
                ActivityState.FAILED, ErrorInfo(kind=ErrorKind.TIMEOUT, type="T", message="late")
            ),
            ActivityTimedOut,
        ),
    ],
)
async def test_every_end_without_a_result_has_its_exception(
    storage: Ended, expected: type[Exception]
) -> None:
    future = ActivityFuture[Any](storage, "q", uuid4(), decoder=Decoder(Any))
    with pytest.raises(expected, match=str(future.id)):
        await future
