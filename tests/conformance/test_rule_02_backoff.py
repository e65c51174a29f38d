"""Rule 2: after failure n the wait is base * 2^(n+1), capped; policies vary it, `Retry(after)` wins."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.conformance.eventually import eventually

from runnerq import Backoff, Retry, RetryPolicy, activity
from runnerq.retry import backoff_seconds
from runnerq.storage.records import ActivityState, EventKind, OutcomeKind

if TYPE_CHECKING:
    from tests.conformance.engines import Engines
    from tests.conformance.station import Station

    from runnerq import ActivityExecutor
    from runnerq.storage.records import ActivityEvent

SECONDS = [
    # base, failures before this one, cap, wait
    (1, 0, 3600, 2),
    (1, 1, 3600, 4),
    (5, 2, 3600, 40),
    (1, 10, 3600, 2048),
    (1, 11, 3600, 3600),
    (1, 3, 10, 10),
    (60, 9, 86_400, 61_440),
    (60, 15, 86_400, 86_400),
    (0, 50, 60, 0),
    (3, 1000, 2_147_483_647, 2_147_483_647),
]


@pytest.mark.parametrize(("base", "failures_before", "cap", "wait"), SECONDS)
def test_the_wait_follows_the_table(base: int, failures_before: int, cap: int, wait: int) -> None:
    assert backoff_seconds(base, failures_before, cap) == wait
    policy = RetryPolicy(base=timedelta(seconds=base), cap=timedelta(seconds=cap))
    assert policy.delay(failures_before) == timedelta(seconds=wait)


def test_the_default_cap_is_an_hour() -> None:
    assert backoff_seconds(1, 50) == 3600
    assert RetryPolicy().delay(50) == timedelta(hours=1)


@pytest.mark.parametrize("backoff", list(Backoff))
def test_ten_thousand_failures_do_not_overflow(backoff: Backoff) -> None:
    policy = RetryPolicy(backoff=backoff, base=timedelta(seconds=7))
    assert timedelta(0) < policy.delay(10_000) <= timedelta(hours=1)


def test_linear_grows_by_the_base_and_constant_stays() -> None:
    linear = RetryPolicy(backoff=Backoff.LINEAR, base=timedelta(seconds=5))
    constant = RetryPolicy(backoff=Backoff.CONSTANT, base=timedelta(seconds=5))
    assert [linear.delay(n).total_seconds() for n in range(3)] == [5, 10, 15]
    assert [constant.delay(n).total_seconds() for n in range(3)] == [5, 5, 5]


def test_full_jitter_stays_between_nothing_and_the_wait() -> None:
    policy = RetryPolicy(jitter=True)
    drawn = [policy.delay(3).total_seconds() for _ in range(200)]
    assert all(0 <= seconds <= 16 for seconds in drawn)
    assert len(set(drawn)) > 100
    assert policy.delay(3, uniform=0.5) == timedelta(seconds=8)


@pytest.mark.parametrize("delay", [2, 40, 3600, 86_400])
async def test_a_retried_activity_waits_exactly_as_long_as_asked(
    station: Station, delay: int
) -> None:
    activity_id = await station.enqueue()
    claim = await station.claim_one()
    await station.retry(claim, delay=delay)
    assert await station.state(activity_id) is ActivityState.RETRYING
    await station.advance(delay - 1)
    assert await station.claim() == []
    await station.advance(1)
    assert (await station.claim_one()).id == activity_id


async def test_the_longest_wait_is_stored_without_overflow(station: Station) -> None:
    activity_id = await station.enqueue()
    seconds = 2_147_483_647
    await station.end(await station.claim_one(), OutcomeKind.RETRIED, delay_ms=seconds * 1000)
    look = await station.look(activity_id)
    assert look.ready_at - look.created_at >= timedelta(seconds=seconds)


async def wait_after_failure(
    station: Station, executor: ActivityExecutor, *, failures: int = 1
) -> float:
    """Enqueue a `failing`, see it fail so often, and say how long it was told to wait, in seconds."""
    future = await executor.activity("failing").max_attempts(10).execute()

    async def failed() -> list[ActivityEvent]:
        events = await station.backend.get_activity_events(station.queue, future.id)
        retried = [event for event in events if event.kind is EventKind.RETRIED]
        return retried if len(retried) >= failures else []

    last = (await eventually(failed))[failures - 1]
    look = await station.look(future.id)
    return (look.ready_at - last.at).total_seconds()


async def test_an_engine_backs_off_by_default_two_seconds_first(
    station: Station, engines: Engines
) -> None:
    @activity("failing")
    async def failing() -> None:
        raise RuntimeError("no")

    await engines.start(failing)
    assert await wait_after_failure(station, engines.executor) == pytest.approx(2, abs=0.002)


async def test_an_engine_doubles_with_each_failure(station: Station, engines: Engines) -> None:
    @activity("failing", retry=RetryPolicy(base=timedelta(milliseconds=20)))
    async def failing() -> None:
        raise RuntimeError("no")

    await engines.start(failing)
    waited = await wait_after_failure(station, engines.executor, failures=4)
    assert waited >= 0.020 * 2**4 - 0.002


async def test_retry_after_wins_over_the_policy(station: Station, engines: Engines) -> None:
    @activity("failing", retry=RetryPolicy(base=timedelta(seconds=1)))
    async def failing() -> None:
        raise Retry("later", after=77)

    await engines.start(failing)
    assert await wait_after_failure(station, engines.executor) == pytest.approx(77, abs=0.002)


async def test_an_exception_type_can_be_made_final(station: Station, engines: Engines) -> None:
    @activity("failing", retry=RetryPolicy(non_retryable=(LookupError,)))
    async def failing() -> None:
        raise KeyError("a subclass of LookupError")

    await engines.start(failing)
    future = await engines.executor.activity("failing").execute()
    ended = await station.backend.wait_for_result(station.queue, future.id, 10)
    assert ended is not None
    assert ended.state is ActivityState.FAILED
