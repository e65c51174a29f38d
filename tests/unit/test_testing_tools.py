"""The tools that users test with."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from datetime import timedelta

import pytest
from tests.conformance.eventually import eventually

from runnerq import (
    ActivityContext,
    ActivityExecutor,
    ActivityState,
    BackendUnavailable,
    StorageError,
    activity,
)
from runnerq.storage import ports
from runnerq.storage.memory import MemoryBackend
from runnerq.testing import FaultyBackend, VirtualClock, drain


@activity("double")
async def double(value: int) -> int:
    return value * 2


@activity("chain")
async def chain(left: int, ctx: ActivityContext) -> int:
    if left:
        await ctx.executor.activity("chain").payload(left - 1).execute()
    return left


@activity("fails", max_attempts=4)
async def fails() -> None:
    raise ValueError("always")


@pytest.fixture
def backend() -> FaultyBackend:
    return FaultyBackend(MemoryBackend())


def test_a_faulty_backend_has_every_call_of_a_backend() -> None:
    for name, member in inspect.getmembers(ports.Storage):
        if not name.startswith("_"):
            assert name in dir(FaultyBackend), name
            if inspect.isfunction(member):
                found = inspect.signature(getattr(FaultyBackend, name))
                assert list(found.parameters) == list(inspect.signature(member).parameters)


async def test_without_a_fault_it_is_the_backend_it_wraps(backend: FaultyBackend) -> None:
    executor = ActivityExecutor(backend)
    future = await executor.activity("double").payload(4).execute()
    await drain(backend, [double])
    assert await future == 8
    assert backend.calls["enqueue"] == 1
    assert backend.capabilities.name == "memory"


async def test_a_fault_strikes_the_next_calls_and_no_others(backend: FaultyBackend) -> None:
    backend.fail("stats", times=2)
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            await backend.stats("q")
    await backend.stats("q")
    await backend.list_queues()
    assert backend.calls["stats"] == 3


async def test_a_refusal_is_an_error_of_storage_but_no_outage(backend: FaultyBackend) -> None:
    def poisoned(queue: str) -> bool:
        return queue == "poison"

    backend.refuse("stats", when=poisoned)
    await backend.stats("q")
    with pytest.raises(StorageError) as caught:
        await backend.stats("poison")
    assert not isinstance(caught.value, BackendUnavailable)


async def test_a_lost_answer_has_its_effect(backend: FaultyBackend) -> None:
    backend.lose_answer("enqueue")
    executor = ActivityExecutor(backend, enqueue_timeout=0)
    with pytest.raises(BackendUnavailable):
        await executor.activity("double").payload(4).execute()
    assert (await backend.stats("default")).counts[ActivityState.PENDING] == 1


async def test_a_delay_makes_a_call_late(backend: FaultyBackend) -> None:
    backend.delay("stats", seconds=0.05)
    began = time.monotonic()
    await backend.stats("q")
    assert time.monotonic() - began >= 0.05


async def test_a_stalled_call_goes_on_when_it_is_released(backend: FaultyBackend) -> None:
    stall = backend.stall("stats")
    call = asyncio.ensure_future(backend.stats("q"))
    await eventually(lambda: stall.waiting == 1)
    threading.Thread(target=stall.release).start()
    async with asyncio.timeout(10):
        await call
    assert stall.waiting == 0


async def test_cut_off_strikes_everything_until_it_is_healed(backend: FaultyBackend) -> None:
    backend.cut_off()
    for call in (backend.open, backend.list_queues):
        with pytest.raises(BackendUnavailable):
            await call()
    with pytest.raises(BackendUnavailable):
        backend.event_stream("q")
    backend.heal()
    await backend.open()


@pytest.mark.parametrize("methods", [(), ("acknowledged",), ("stats", "work_signal")])
def test_a_fault_for_no_method_is_a_mistake(
    backend: FaultyBackend, methods: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match="methods: "):
        backend.fail(*methods)


async def test_drain_runs_what_is_claimable_and_what_that_enqueues(backend: FaultyBackend) -> None:
    executor = ActivityExecutor(backend)
    await executor.activity("chain").payload(5).execute()
    delayed = await executor.activity("double").payload(1).delay(3600).execute()
    foreign = await executor.activity("nobody").execute()
    await drain(backend, [double, chain])
    stats = await backend.stats("default")
    assert stats.counts[ActivityState.COMPLETED] == 6
    for future in (delayed, foreign):
        assert not await future.done()


async def test_drain_with_a_clock_runs_through_delays_and_backoffs_at_once() -> None:
    clock = VirtualClock()
    backend = MemoryBackend(clock=clock)
    executor = ActivityExecutor(backend)
    delayed = await executor.activity("double").payload(4).delay(days=3).execute()
    failing = await fails.payload(None).on(executor).execute()
    began = clock.now_ms()
    await drain(backend, [double, fails], clock=clock)
    assert await delayed == 8
    snapshot = await backend.get_activity("default", failing.id)
    assert (snapshot.status, snapshot.attempt) == (ActivityState.DEAD_LETTER, 4)
    assert clock.now_ms() - began == 3 * 86_400_000


async def test_drain_gives_up_and_says_what_is_left(backend: FaultyBackend) -> None:
    @activity("endless")
    async def endless(ctx: ActivityContext) -> None:
        await ctx.executor.activity("endless").execute()

    await ActivityExecutor(backend).activity("endless").execute()
    with pytest.raises(TimeoutError, match="of endless"):
        await drain(backend, [endless], timeout=0.3)


async def test_drain_works_through_an_outage(backend: FaultyBackend) -> None:
    future = await ActivityExecutor(backend).activity("double").payload(4).execute()
    backend.fail("claim", "acknowledge", "heartbeat_blocking", times=4)
    await drain(backend, [double])
    assert await future == 8


def test_a_virtual_clock_moves_only_forward() -> None:
    clock = VirtualClock(5_000)
    clock.advance(timedelta(seconds=1.5))
    assert clock.now_ms() == 6_500
    with pytest.raises(ValueError, match=r"^by: "):
        clock.advance(timedelta(seconds=-1))
