"""Rule 9: delay, run_at and timeout are exact to the millisecond, with no promotion to be missed."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tests.conformance.eventually import WITHIN

from runnerq import ActivityTimedOut, activity
from runnerq.storage.records import ActivityState

if TYPE_CHECKING:
    from tests.conformance.engines import Engines
    from tests.conformance.station import Station


async def now(station: Station) -> datetime:
    """The backend's clock."""
    [demand] = await station.backend.demand([station.queue], horizon_ms=1)
    return demand.as_of


@pytest.mark.parametrize("delay_ms", [1, 17, 250, 999, 1_001, 86_400_000])
async def test_a_delay_is_exact_to_the_millisecond(station: Station, delay_ms: int) -> None:
    activity_id = await station.enqueue(delay_ms=delay_ms)
    look = await station.look(activity_id)
    assert look.status is ActivityState.SCHEDULED
    assert look.ready_at - look.created_at == timedelta(milliseconds=delay_ms)


async def test_a_run_at_is_exact_to_the_millisecond(station: Station) -> None:
    at = (await now(station)).replace(microsecond=123_000) + timedelta(minutes=5)
    activity_id = await station.enqueue(run_at=at)
    look = await station.look(activity_id)
    assert (look.status, look.ready_at) == (ActivityState.SCHEDULED, at)


async def test_a_run_at_in_another_zone_is_the_same_instant(station: Station) -> None:
    at = (await now(station)).replace(microsecond=0) + timedelta(hours=5)
    from zoneinfo import ZoneInfo

    activity_id = await station.enqueue(run_at=at.astimezone(ZoneInfo("Asia/Kathmandu")))
    assert (await station.look(activity_id)).ready_at == at


async def test_a_run_at_in_the_past_is_due_now(station: Station) -> None:
    activity_id = await station.enqueue(run_at=datetime(1999, 12, 31, tzinfo=UTC))
    look = await station.look(activity_id)
    assert look.status is ActivityState.PENDING
    assert look.ready_at >= look.created_at
    assert (await station.claim_one()).id == activity_id


async def test_delayed_work_is_claimable_when_due_and_not_before(station: Station) -> None:
    activity_id = await station.enqueue(delay_ms=60_000)
    assert await station.claim() == []
    await station.advance(59)
    assert await station.claim() == []
    await station.advance(1)
    claim = await station.claim_one()
    assert claim.id == activity_id
    assert claim.claimed_at >= claim.ready_at


async def test_work_that_is_due_does_not_take_future_work_along(station: Station) -> None:
    due = await station.enqueue()
    await station.enqueue(delay_ms=60_000)
    await station.enqueue(delay_ms=1_000)
    assert [claim.id for claim in await station.claim(10)] == [due]


async def test_nothing_must_run_for_delayed_work_to_become_claimable(station: Station) -> None:
    await station.enqueue(delay_ms=60_000)
    await station.advance(60)
    if not station.backend.capabilities.native_schedule:
        assert await station.backend.process_scheduled(station.queue, limit=10) == 1
    assert len(await station.claim()) == 1


async def test_backends_that_schedule_themselves_have_nothing_to_promote(station: Station) -> None:
    assert station.backend.capabilities.native_schedule
    await station.enqueue(delay_ms=60_000)
    await station.advance(60)
    assert await station.backend.process_scheduled(station.queue, limit=10) == 0


async def test_a_snooze_is_as_long_as_asked(station: Station) -> None:
    from runnerq.storage.records import OutcomeKind

    activity_id = await station.enqueue()
    await station.end(await station.claim_one(), OutcomeKind.SNOOZED, delay_ms=60_000)
    await station.advance(59)
    assert await station.claim() == []
    await station.advance(1)
    assert (await station.claim_one()).id == activity_id


async def test_the_timeout_reaches_the_claim_in_milliseconds(station: Station) -> None:
    await station.enqueue(timeout_ms=1_234)
    assert (await station.claim_one()).timeout_ms == 1_234


@pytest.mark.parametrize("delay", [0.3, 0.001])
async def test_a_delay_below_a_second_is_kept_by_an_engine(engines: Engines, delay: float) -> None:
    @activity("work")
    async def work() -> str:
        return "done"

    await engines.start(work)
    started = time.monotonic()
    future = await engines.executor.activity("work").delay(seconds=delay).execute()
    assert await future.get_result(timeout=WITHIN) == "done"
    # Some backends' clocks count whole milliseconds: an enqueue late in one counts from its beginning.
    assert time.monotonic() - started >= delay - 0.001


async def test_a_timeout_below_a_second_is_not_rounded_to_nothing_nor_up(engines: Engines) -> None:
    import asyncio

    @activity("quick", timeout=0.9, max_attempts=1)
    async def quick() -> str:
        await asyncio.sleep(0.05)
        return "in time"

    @activity("slow", timeout=0.2, max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(30)

    await engines.start(quick, slow)
    assert await (await quick.payload(None).on(engines.executor).execute()).get_result(15) == (
        "in time"
    )
    started = time.monotonic()
    future = await slow.payload(None).on(engines.executor).execute()
    with pytest.raises(ActivityTimedOut):
        await future.get_result(timeout=WITHIN)
    assert 0.2 <= time.monotonic() - started < 10
