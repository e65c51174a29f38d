"""Timeouts: one timer for all, exact enough, and stronger than any handler."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import Rig

from runnerq import ActivityContext, ActivityState, ActivityTimedOut, RetryPolicy, activity
from runnerq.engine import attempt as attempt_module
from runnerq.engine import timers as timers_module
from runnerq.storage.records import ErrorKind

if TYPE_CHECKING:
    from runnerq import ActivityFuture

LATER = RetryPolicy(base=timedelta(seconds=30))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers_module, "AGAIN", 0.02)
    monkeypatch.setattr(attempt_module, "PATIENCE", 3)


@pytest.mark.parametrize("timeout", [0.001, 0.002, 0.005, 0.009, 0.05])
async def test_a_timeout_of_milliseconds_is_kept(rig: Rig, timeout: float) -> None:
    @activity("work", timeout=timeout)
    async def work() -> None:
        await asyncio.sleep(60)

    await rig.start(work)
    future = await work.payload(None).max_attempts(1).on(rig.executor).execute()
    with pytest.raises(ActivityTimedOut, match=f"{timeout:g} s"):
        await rig.result(future)


async def test_each_of_many_attempts_has_its_own_deadline(rig: Rig) -> None:
    ended: dict[int, float] = {}

    @activity("work", retry=LATER)
    async def work(ms: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended[ms] = time.monotonic()

    await rig.start(work, max_workers=200)
    wanted = [20 + 5 * ((number * 37) % 100) for number in range(100)]
    enqueued: dict[int, float] = {}
    futures: list[ActivityFuture[Any]] = []
    for ms in wanted:
        enqueued[ms] = time.monotonic()
        futures.append(await rig.enqueue("work", ms, timeout=ms / 1000))
    for future in futures:
        snapshot = await rig.reaches(future, ActivityState.RETRYING)
        assert snapshot.error is not None
        assert snapshot.error.kind is ErrorKind.TIMEOUT
    assert sorted(ended) == sorted(wanted)
    # Never too early, counted from before the handler could begin; how late is the machine's affair.
    assert all(ended[ms] - enqueued[ms] >= ms / 1000 for ms in wanted)


async def test_a_handler_that_ends_in_time_is_not_interrupted(rig: Rig) -> None:
    @activity("work", timeout=5)
    async def work(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    await rig.start(work)
    futures = [await rig.enqueue("work", n / 1000, timeout=5) for n in range(50)]
    assert [await rig.result(future) for future in futures] == [n / 1000 for n in range(50)]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("how", ["returns", "raises", "waits again", "never ends"])
async def test_a_handler_that_swallows_its_timeout_has_timed_out_all_the_same(
    rig: Rig, how: str
) -> None:
    @activity("work", retry=LATER)
    async def work(how: str) -> Any:
        swallowed = 0
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
                match how:
                    case "returns":
                        return "too late"
                    case "raises":
                        raise ValueError("too late") from None
                    case "waits again" if swallowed == 2:
                        return "much too late"
                    case _:
                        continue

    await rig.start(work, max_workers=1)
    future = await rig.enqueue("work", how, timeout=0.02)
    snapshot = await rig.reaches(future, ActivityState.RETRYING)
    assert snapshot.error is not None
    assert snapshot.error.kind is ErrorKind.TIMEOUT
    # The slot is free again, also after the handler that never ends.
    again = await rig.enqueue("work", "returns", timeout=0.02)
    await rig.reaches(again, ActivityState.RETRYING)


@pytest.mark.usefixtures("impatient")
async def test_the_cleanup_of_a_handler_may_wait(rig: Rig) -> None:
    cleaned: list[str] = []

    @activity("work", retry=LATER)
    async def work(ctx: ActivityContext) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.001)
            cleaned.append(f"cancelled: {ctx.cancelled}")

    await rig.start(work)
    await rig.reaches(await rig.enqueue("work", timeout=0.01), ActivityState.RETRYING)
    assert cleaned == ["cancelled: True"]


async def test_a_timeout_and_an_end_at_the_same_moment_are_one_end(rig: Rig) -> None:
    @activity("work", max_attempts=1)
    async def work() -> str:
        await asyncio.sleep(0.01)
        return "done"

    engine = await rig.start(work, max_workers=50)
    futures = [await rig.enqueue("work", timeout=0.01, max_attempts=1) for _ in range(200)]
    ends: list[str] = []
    for future in futures:
        try:
            ends.append(await rig.result(future))
        except ActivityTimedOut:
            ends.append("timed out")
    assert set(ends) <= {"done", "timed out"}
    await eventually(lambda: engine.busy == 0)
    assert await rig.result(await rig.enqueue("work", timeout=5)) == "done"
