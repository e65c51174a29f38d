"""Starting and stopping, in every order."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import Rig, Signal

from runnerq import (
    ActivityState,
    BackendUnavailable,
    ConfigurationError,
    PrometheusMetrics,
    activity,
)
from runnerq.engine import slots as slots_module
from runnerq.engine import worker_engine as engine_module
from runnerq.storage.records import EngineState, EventKind


@activity("work")
async def work(value: int = 0) -> int:
    return value


async def test_an_engine_that_was_never_started_stops_at_once_and_for_good(rig: Rig) -> None:
    engine = rig.make(work)
    await engine.stop()
    await engine.stop()
    assert engine.phase == "stopped"
    assert not engine.healthy
    with pytest.raises(ConfigurationError, match="make a new one"):
        await engine.start()


async def test_starting_twice_starts_once(rig: Rig) -> None:
    engine = rig.make(work)
    await asyncio.gather(engine.start(), engine.start())
    await engine.start()
    assert rig.backend.calls["register_engine"] == 1


async def test_stopping_twice_or_at_the_same_time_stops_once(rig: Rig) -> None:
    engine = await rig.start(work)
    await asyncio.gather(engine.stop(), engine.stop(grace=0), engine.stop())
    await engine.stop()
    assert engine.phase == "stopped"
    assert rig.backend.calls["retire_engine"] == 1
    with pytest.raises(ConfigurationError, match="make a new one"):
        await engine.start()


async def test_a_stop_during_the_start_is_not_lost(rig: Rig) -> None:
    engine = rig.make(work)
    stall = rig.backend.stall("register_engine")
    starting = asyncio.ensure_future(engine.start())
    await eventually(lambda: stall.waiting == 1)
    stopping = asyncio.ensure_future(engine.stop())
    await asyncio.sleep(0)
    stall.release()
    await asyncio.gather(starting, stopping)
    assert engine.phase == "stopped"
    assert rig.backend.calls["retire_engine"] == 1


async def test_a_start_that_fails_can_be_repeated(rig: Rig) -> None:
    engine = rig.make(work)
    rig.backend.fail("open", "register_engine")
    with pytest.raises(BackendUnavailable):
        await engine.start()
    rig.backend.fail("register_engine")
    with pytest.raises(BackendUnavailable):
        await engine.start()
    await engine.start()
    assert await rig.result(await rig.enqueue("work", 5)) == 5


async def test_a_start_that_is_cancelled_leaves_nothing_behind(rig: Rig) -> None:
    engine = rig.make(work)
    stall = rig.backend.stall("open")
    starting = asyncio.ensure_future(engine.start())
    await eventually(lambda: stall.waiting == 1)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    rig.backend.heal()
    assert engine.phase == "new"
    await engine.start()
    assert await rig.result(await rig.enqueue("work", 5)) == 5


async def test_handlers_are_registered_before_the_start_only(rig: Rig) -> None:
    engine = rig.make()

    async def late() -> str:
        return "registered"

    engine.register_activity("late", late)
    await engine.start()
    assert await rig.result(await rig.enqueue("late")) == "registered"
    with pytest.raises(ConfigurationError, match="before start"):
        engine.register_activity("later", late)


async def test_a_handler_may_finish_within_the_grace(rig: Rig) -> None:
    began, go = Signal(), Signal()

    @activity("held")
    async def held() -> str:
        began.set()
        await go.wait()
        return "finished"

    engine = await rig.start(held)
    future = await rig.enqueue("held")
    await began.wait()
    stopping = asyncio.ensure_future(engine.stop())
    await eventually(lambda: engine.phase == "stopping")
    later = await rig.enqueue("held")
    go.set()
    await stopping
    assert await rig.result(future) == "finished"
    assert (await rig.look(later.id)).status is ActivityState.PENDING


async def test_an_engine_tells_that_it_is_draining(rig: Rig) -> None:
    began, go = Signal(), Signal()

    @activity("held")
    async def held() -> None:
        began.set()
        await go.wait()

    engine = await rig.start(held, heartbeat_interval=5.0)
    await rig.enqueue("held")
    await began.wait()
    stopping = asyncio.ensure_future(engine.stop())

    async def draining() -> bool:
        [demand] = await rig.memory.demand(["q"], horizon_ms=0)
        return [one.state for one in demand.engines] == [EngineState.DRAINING]

    await eventually(draining, within=3)
    go.set()
    await stopping
    [demand] = await rig.memory.demand(["q"], horizon_ms=0)
    assert demand.engines == ()


HOLDERS = ["gives in", "cleans up", "swallows once", "completes", "never gives in", "clings"]


@pytest.mark.parametrize("how", HOLDERS)
async def test_after_the_grace_handlers_are_interrupted_and_their_claims_handed_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(slots_module, "CLOSE_PATIENCE", 0.1)
    began, free = Signal(), Signal()

    async def stubborn() -> None:
        while not free.is_set:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    @activity("held")
    async def held(how: str) -> str:
        began.set()
        try:
            if how == "clings":
                await asyncio.create_task(stubborn())
            elif how == "never gives in":
                await stubborn()
            else:
                await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if how == "cleans up":
                await asyncio.sleep(0.01)
            if how == "swallows once":
                await asyncio.sleep(3600)
            if how == "completes":
                return "after all"
            raise
        return "?"

    engine = await rig.start(held)
    future = await rig.enqueue("held", how)
    await began.wait()
    before = time.monotonic()
    await engine.stop(grace=0.05)
    assert time.monotonic() - before < 15
    free.set()
    snapshot = await rig.look(future.id)
    if how == "completes":
        assert await rig.result(future) == "after all"
    else:
        assert (snapshot.status, snapshot.attempt) == (ActivityState.PENDING, 0)
        assert EventKind.RELEASED in await rig.events(future)


async def test_stop_goes_on_when_its_caller_gives_up(rig: Rig) -> None:
    began, go = Signal(), Signal()

    @activity("held")
    async def held() -> str:
        began.set()
        await go.wait()
        return "finished"

    engine = await rig.start(held)
    future = await rig.enqueue("held")
    await began.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await engine.stop()
    assert engine.phase == "stopping"
    go.set()
    await engine.stop()
    assert await rig.result(future) == "finished"


async def test_stop_ends_although_the_backend_is_gone(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "LAST_FLUSH", 0.2)
    began = Signal()

    @activity("held")
    async def held() -> None:
        began.set()
        await asyncio.sleep(3600)

    engine = await rig.start(held)
    future = await rig.enqueue("held")
    await began.wait()
    rig.backend.cut_off()
    before = time.monotonic()
    await engine.stop(grace=0.05)
    assert time.monotonic() - before < 10
    rig.backend.heal()
    # Nothing could be said of it, so the next engine takes it over from a dead one.
    assert (await rig.look(future.id)).status is ActivityState.PROCESSING


async def test_stop_ends_although_a_claim_never_answers(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "LAST_FLUSH", 0.2)
    engine = await rig.start(work)
    stall = rig.backend.stall("claim")
    future = await rig.enqueue("work", 5)
    await eventually(lambda: stall.waiting == 1)
    async with asyncio.timeout(10):
        await engine.stop(grace=0.05)
    stall.release()
    # An engine that was retired is given nothing any more.
    await eventually(lambda: stall.waiting == 0)
    assert (await rig.look(future.id)).status is ActivityState.PENDING


async def test_what_is_handed_back_is_counted(rig: Rig) -> None:
    began = Signal()

    @activity("held")
    async def held() -> None:
        began.set()
        await asyncio.sleep(3600)

    metrics = PrometheusMetrics()
    engine = await rig.start(held, metrics=metrics)
    await rig.enqueue("held")
    await began.wait()
    await engine.stop(grace=0)
    assert metrics.registry.get_sample_value("runnerq_handed_back_total", {"queue": "q"}) == 1


async def test_every_part_is_stopped_although_one_of_them_fails(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await rig.start(work)
    leases: Any = engine._leases  # pyright: ignore[reportPrivateUsage]
    real = leases.stop

    async def fail() -> None:
        await real()
        raise RuntimeError("cannot stop")

    monkeypatch.setattr(leases, "stop", fail)
    with pytest.raises(RuntimeError, match="cannot stop"):
        await engine.stop()
    assert engine.phase == "stopped"
    assert rig.backend.calls["retire_engine"] == 1
    rig.forget(engine)


async def test_work_goes_on_after_many_engines_came_and_went(rig: Rig) -> None:
    futures = [await rig.enqueue("work", number) for number in range(100)]
    for _ in range(10):
        engine = await rig.start(work, max_workers=3, claim_batch=3)
        await engine.stop()
    await rig.start(work)
    assert [await rig.result(future) for future in futures] == list(range(100))
    for future in futures:
        assert (await rig.events(future)).count(EventKind.COMPLETED) == 1


async def test_an_engine_runs_until_it_is_asked_to_stop(rig: Rig) -> None:
    engine = rig.make(work)
    running = asyncio.ensure_future(engine.run_until_signal())
    assert await rig.result(await rig.enqueue("work", 5)) == 5
    engine.request_stop()
    async with asyncio.timeout(15):
        await running
    assert engine.phase == "stopped"


async def test_a_stop_asked_for_before_the_run_starts_nothing(rig: Rig) -> None:
    engine = rig.make(work)
    engine.request_stop()
    async with asyncio.timeout(15):
        await engine.run_until_signal()
    assert rig.backend.calls["register_engine"] == 0


async def test_a_run_that_is_cancelled_stops_the_engine(rig: Rig) -> None:
    engine = rig.make(work)
    running = asyncio.ensure_future(engine.run_until_signal())
    await eventually(lambda: engine.phase == "running")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert engine.phase == "stopped"


async def test_an_engine_knows_its_queue_through_everything_it_hands_out(rig: Rig) -> None:
    engine = await rig.start(work, queue_name="other")
    assert engine.get_activity_executor().queue == "other"
    assert engine.inspector().queue == "other"
    future = await engine.get_activity_executor().activity("work").payload(3).execute()
    assert await rig.result(future) == 3
    assert (await engine.inspector().stats()).counts[ActivityState.COMPLETED] == 1
