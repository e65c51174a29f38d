"""Rule 11: an engine that stops finishes or hands back what it has, at any time it is told to."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.conformance.children import Child
from tests.conformance.eventually import WITHIN, eventually

from runnerq import ConfigurationError, activity
from runnerq.storage.records import ActivityState, EngineState

if TYPE_CHECKING:
    from uuid import UUID

    from tests.conformance.engines import Engines
    from tests.conformance.station import Station
    from tests.conformance.stores import Store

    from runnerq import ActivityDefinition


class Blocking:
    """A handler that runs until it is let go, and says when it began and how it was ended."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.let_go = asyncio.Event()
        self.cancelled = False

    def definition(self, name: str = "work") -> ActivityDefinition[None, str]:
        @activity(name, timeout=60)
        async def handler() -> str:
            self.began.set()
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            return "finished"

        return handler


async def started(handler: Blocking) -> None:
    async with asyncio.timeout(WITHIN):
        await handler.began.wait()


async def test_a_handler_may_finish_within_the_grace(station: Station, engines: Engines) -> None:
    handler = Blocking()
    engine = await engines.start(handler.definition())
    future = await engines.executor.activity("work").execute()
    await started(handler)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(engine.stop(grace=WITHIN))
        handler.let_go.set()
    ended = await station.result(future.id)
    assert ended is not None
    assert ended.result == b'"finished"'
    assert not handler.cancelled


async def test_without_grace_the_work_is_handed_back_at_once_and_no_attempt_is_counted(
    station: Station, engines: Engines
) -> None:
    handler = Blocking()
    engine = await engines.start(handler.definition())
    future = await engines.executor.activity("work").max_attempts(1).execute()
    await started(handler)
    before = time.monotonic()
    await engine.stop(grace=0)
    assert handler.cancelled
    look = await station.look(future.id)
    assert (look.status, look.attempt) == (ActivityState.PENDING, 0)
    claim = await station.claim_one()
    assert (claim.id, claim.attempt) == (future.id, 1)
    assert time.monotonic() - before < 10


async def test_work_handed_back_is_finished_by_another_engine(engines: Engines) -> None:
    handler = Blocking()
    first = await engines.start(handler.definition())
    future = await engines.executor.activity("work").max_attempts(1).execute()
    await started(handler)
    await first.stop(grace=0)
    second = Blocking()
    second.let_go.set()
    await engines.start(second.definition())
    assert await future.get_result(WITHIN) == "finished"


async def test_claims_that_no_handler_has_begun_go_back_uncounted(
    station: Station, engines: Engines
) -> None:
    """A plain handler holds the only thread, so the other claims wait inside the engine."""
    began, let_go = threading.Event(), threading.Event()

    @activity("work")
    def work() -> None:
        began.set()
        let_go.wait(30)

    engine = await engines.start(work, max_workers=5, sync_threads=1)
    futures = [await engines.executor.activity("work").execute() for _ in range(5)]
    await eventually(began.is_set)
    await eventually(lambda: engine.busy == 5)
    await engine.stop(grace=0)
    let_go.set()
    for future in futures:
        look = await station.look(future.id)
        assert (look.status, look.attempt) == (ActivityState.PENDING, 0)


async def test_a_stopping_engine_claims_nothing_new(station: Station, engines: Engines) -> None:
    handler = Blocking()
    engine = await engines.start(handler.definition())
    await engines.executor.activity("work").execute()
    await started(handler)
    async with asyncio.TaskGroup() as tasks:
        stopping = tasks.create_task(engine.stop(grace=WITHIN))
        await eventually(lambda: _draining(station, engine.engine_id))
        late = await engines.executor.activity("work").execute()
        handler.let_go.set()
        await stopping
    assert await station.state(late.id) is ActivityState.PENDING


async def _draining(station: Station, engine_id: UUID) -> bool:
    [demand] = await station.backend.demand([station.queue], horizon_ms=1)
    return any(
        one.info.engine_id == engine_id and one.state is EngineState.DRAINING
        for one in demand.engines
    )


async def test_a_stopped_engine_is_gone_for_the_others(station: Station, engines: Engines) -> None:
    handler = Blocking()
    engine = await engines.start(handler.definition())
    await engine.stop()
    [demand] = await station.backend.demand([station.queue], horizon_ms=1)
    alive = [one for one in demand.engines if one.state is not EngineState.STOPPED]
    assert engine.engine_id not in [one.info.engine_id for one in alive]


async def test_results_of_the_last_moment_are_stored_before_stop_returns(
    station: Station, engines: Engines
) -> None:
    @activity("quick")
    async def quick(number: int) -> int:
        return number

    engine = await engines.start(quick, max_workers=20)
    futures = await engines.executor.execute_many([quick.payload(number) for number in range(100)])
    await eventually(lambda: _some_ended(station))
    await engine.stop(grace=WITHIN)
    states = [await station.state(future.id) for future in futures]
    assert set(states) <= {ActivityState.COMPLETED, ActivityState.PENDING}
    looks = [await station.look(future.id) for future in futures]
    assert all(look.attempt == 0 for look in looks if look.status is ActivityState.PENDING)


async def _some_ended(station: Station) -> bool:
    stats = await station.backend.stats(station.queue)
    return stats.counts[ActivityState.COMPLETED] > 0


async def test_a_handler_that_swallows_its_cancellation_cannot_stop_the_stop(
    station: Station, engines: Engines
) -> None:
    began = asyncio.Event()

    @activity("stubborn", timeout=60)
    async def stubborn() -> str:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)
        return "never"

    engine = await engines.start(stubborn)
    future = await engines.executor.activity("stubborn").execute()
    async with asyncio.timeout(WITHIN):
        await began.wait()
        await engine.stop(grace=0)
    look = await station.look(future.id)
    assert (look.status, look.attempt) == (ActivityState.PENDING, 0)


async def test_a_plain_handler_that_never_returns_cannot_stop_the_stop(
    station: Station, engines: Engines
) -> None:
    began, let_go = threading.Event(), threading.Event()

    @activity("stuck", timeout=60)
    def stuck() -> None:
        began.set()
        let_go.wait(60)

    engine = await engines.start(stuck)
    future = await engines.executor.activity("stuck").execute()
    await eventually(began.is_set)
    async with asyncio.timeout(WITHIN):
        await engine.stop(grace=0)
    let_go.set()
    assert await station.state(future.id) is ActivityState.PENDING


async def test_stopping_before_start_is_harmless_and_start_says_that_it_was_stopped(
    engines: Engines,
) -> None:
    engine = engines.make(Blocking().definition())
    await engine.stop()
    with pytest.raises(ConfigurationError, match="stopped"):
        await engine.start()


async def test_stopping_during_start_stops(station: Station, engines: Engines) -> None:
    engine = engines.make(Blocking().definition())
    starting = asyncio.ensure_future(engine.start())
    await asyncio.sleep(0)
    await engine.stop(grace=0)
    await asyncio.wait([starting])
    error = starting.exception()
    assert error is None or isinstance(error, ConfigurationError)
    await station.enqueue()
    assert len(await station.claim()) == 1


async def test_stopping_twice_and_at_once_from_two_sides_is_harmless(engines: Engines) -> None:
    engine = await engines.start(Blocking().definition())
    await asyncio.gather(engine.stop(grace=0), engine.stop(grace=0))
    await engine.stop()
    assert engine.busy == 0


async def test_starting_twice_is_harmless(station: Station, engines: Engines) -> None:
    engine = await engines.start(Blocking().definition())
    await engine.start()
    [demand] = await station.backend.demand([station.queue], horizon_ms=1)
    ids = [one.info.engine_id for one in demand.engines]
    assert ids.count(engine.engine_id) == 1


async def test_run_until_signal_stops_on_request_and_restores_the_signal_handlers(
    engines: Engines,
) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    engine = engines.make(Blocking().definition())
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(engine.run_until_signal())
        await eventually(lambda: engine.healthy)
        engine.request_stop()
        await running
    after = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    assert after == before


async def test_a_request_to_stop_that_comes_before_the_start_is_not_lost(
    engines: Engines,
) -> None:
    engine = engines.make(Blocking().definition())
    engine.request_stop()
    async with asyncio.timeout(WITHIN):
        await engine.run_until_signal()


async def test_sigterm_lets_the_handler_finish_and_the_process_exits_with_zero(
    shared_store: Store,
) -> None:
    async with Child(shared_store) as child:
        future = await child.executor.activity("nap").payload(0.5).execute()
        await child.until_started(1)
        child.signal(signal.SIGTERM)
        assert await child.exit_code(WITHIN) == 0
    assert await future.get_result(WITHIN) == "rested"


async def test_sigterm_hands_back_what_does_not_end_in_time_and_the_process_exits_with_zero(
    shared_store: Store,
) -> None:
    async with Child(shared_store, grace=0.2) as child:
        future = await child.executor.activity("nap").payload(600).execute()
        await child.until_started(1)
        child.signal(signal.SIGTERM)
        assert await child.exit_code(WITHIN) == 0
    look = await shared_store.backend.get_activity(shared_store.queue, future.id)
    assert (look.status, look.attempt) == (ActivityState.PENDING, 0)


async def test_a_killed_process_loses_nothing_and_a_second_one_finishes_its_work(
    shared_store: Store,
) -> None:
    async with Child(shared_store) as doomed:
        futures = [await doomed.executor.activity("nap").payload(600).execute() for _ in range(3)]
        await doomed.until_started(3)
        doomed.signal(signal.SIGKILL)
        await doomed.exit_code(WITHIN)
    async with Child(shared_store, nap=0.0) as second:
        results = [await future.get_result(WITHIN * 2) for future in futures]
        assert results == ["rested"] * 3
        await second.until_started(3)
    for future in futures:
        look = await shared_store.backend.get_activity(shared_store.queue, future.id)
        assert look.attempt == 2
