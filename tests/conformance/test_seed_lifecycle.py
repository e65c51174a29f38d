"""The lifecycle of the RunnerQ architecture, where no rule of ours already says it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.conformance.eventually import eventually

from runnerq import activity
from runnerq.storage.records import ActivityState, OutcomeKind

if TYPE_CHECKING:
    from tests.conformance.engines import Engines
    from tests.conformance.station import Station

TEN_YEARS = timedelta(days=3653)


async def test_without_a_delay_work_is_pending_and_with_one_scheduled(station: Station) -> None:
    assert await station.state(await station.enqueue()) is ActivityState.PENDING
    assert await station.state(await station.enqueue(delay_ms=1_000)) is ActivityState.SCHEDULED


async def test_due_work_goes_from_scheduled_to_processing_with_no_state_between(
    station: Station,
) -> None:
    activity_id = await station.enqueue(delay_ms=1_000)
    await station.advance(1)
    assert await station.state(activity_id) is ActivityState.SCHEDULED
    assert (await station.claim_one()).id == activity_id
    assert await station.state(activity_id) is ActivityState.PROCESSING


async def test_a_failed_attempt_is_retrying_until_it_is_claimed_again(station: Station) -> None:
    activity_id = await station.enqueue()
    await station.retry(await station.claim_one(), delay=1)
    assert await station.state(activity_id) is ActivityState.RETRYING
    assert await station.claim() == []
    await station.advance(1)
    assert await station.state(activity_id) is ActivityState.RETRYING
    assert (await station.claim_one()).id == activity_id
    assert await station.state(activity_id) is ActivityState.PROCESSING


@pytest.mark.parametrize("kind", [OutcomeKind.COMPLETED, OutcomeKind.FAILED, OutcomeKind.RETRIED])
async def test_what_has_ended_is_never_claimed_nor_taken_back(
    station: Station, kind: OutcomeKind
) -> None:
    activity_id = await station.enqueue(max_attempts=1)
    ended = await station.end(await station.claim_one(), kind)
    assert ended.state is not None
    assert ended.state.terminal
    await station.silence(24 * 3600)
    assert await station.reap() == []
    await station.register(station.engine)
    assert await station.claim() == []
    assert await station.state(activity_id) is ended.state


async def test_an_ended_activity_with_its_result_and_timeline_is_kept_for_ever(
    station: Station,
) -> None:
    """No time to live on these backends: what ended ten years ago answers as it did on its day."""
    activity_id = await station.enqueue(key="order-42")
    await station.retry(await station.claim_one())
    await station.end(await station.claim_one(), result=b'"kept"')
    await station.store.advance(TEN_YEARS)
    # A fresh process, whose first visit as the reaper tidies up.
    visitor = await station.store.another()
    await visitor.reap(station.queue, limit=100, liveness_ms=15_000)
    result = await visitor.get_result(station.queue, activity_id)
    assert result is not None
    assert result.result == b'"kept"'
    look = await visitor.get_activity(station.queue, activity_id)
    assert (look.status, look.payload) == (ActivityState.COMPLETED, b"{}")
    events = await visitor.get_activity_events(station.queue, activity_id)
    assert [event.kind.value for event in events] == [
        *("enqueued", "claimed", "retried", "claimed", "completed")
    ]
    assert (await station.try_enqueue(key="order-42")).id == activity_id


async def test_no_more_handlers_run_at_once_than_there_are_workers(
    station: Station, engines: Engines
) -> None:
    """And each free worker has one: three of nine run, the other six wait unclaimed for whoever is
    free first."""
    running = 0
    peak = 0
    release = asyncio.Event()

    @activity("work")
    async def work() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await release.wait()
        running -= 1

    futures = [await engines.executor.activity("work").execute() for _ in range(9)]
    engine = await engines.start(work, max_workers=3)
    await eventually(lambda: running == 3)
    stats = await station.backend.stats(station.queue)
    assert stats.counts[ActivityState.PROCESSING] == engine.busy == 3
    assert stats.counts[ActivityState.PENDING] == 6
    release.set()
    for future in futures:
        await future.get_result(timeout=15)
    assert peak == 3
