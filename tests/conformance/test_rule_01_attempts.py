"""Rule 1: `max_attempts` counts all runs, and a run is counted when it is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.conformance.station import BOOM

from runnerq.retry import attempts_remain
from runnerq.storage.records import ActivityState, ErrorKind, OutcomeKind

if TYPE_CHECKING:
    from tests.conformance.station import Station

REMAINING = [
    # max_attempts, failures before this one, does another attempt follow?
    (0, 100_000, True),
    (1, 0, False),
    (2, 0, True),
    (2, 1, False),
    (5, 3, True),
    (5, 4, False),
    (5, 7, False),
]
REACHABLE = [case for case in REMAINING if case[1] < 5]


@pytest.mark.parametrize(("max_attempts", "failures_before", "remain"), REMAINING)
def test_whether_attempts_remain_follows_the_table(
    max_attempts: int, failures_before: int, remain: bool
) -> None:
    assert attempts_remain(max_attempts, failures_before) is remain


@pytest.mark.parametrize(("max_attempts", "failures_before", "remain"), REACHABLE)
async def test_the_stored_outcome_of_a_failure_follows_the_table(
    station: Station, max_attempts: int, failures_before: int, remain: bool
) -> None:
    activity = await station.enqueue(max_attempts=max_attempts)
    for _ in range(failures_before):
        await station.retry(await station.claim_one())
    answer = await station.retry(await station.claim_one())
    expected = ActivityState.RETRYING if remain else ActivityState.DEAD_LETTER
    assert answer.state is expected
    assert await station.state(activity) is expected


@pytest.mark.parametrize(("max_attempts", "failures_before", "remain"), REACHABLE)
async def test_a_lost_worker_counts_like_a_failure(
    station: Station, max_attempts: int, failures_before: int, remain: bool
) -> None:
    activity = await station.enqueue(max_attempts=max_attempts)
    for _ in range(failures_before):
        await station.retry(await station.claim_one())
    await station.claim_one()
    await station.silence(15)
    [reaped] = await station.reap()
    assert reaped.attempt == failures_before + 1
    expected = ActivityState.PENDING if remain else ActivityState.DEAD_LETTER
    assert reaped.state is expected
    assert await station.state(activity) is expected


async def test_an_attempt_is_counted_when_it_is_claimed(station: Station) -> None:
    activity = await station.enqueue()
    assert (await station.look(activity)).attempt == 0
    claim = await station.claim_one()
    assert claim.attempt == 1
    assert (await station.look(activity)).attempt == 1


async def test_a_worker_that_dies_has_used_an_attempt(station: Station) -> None:
    await station.enqueue()
    first = await station.claim_one()
    second = await station.steal(first)
    assert second.attempt == 2


async def test_a_crash_loop_ends_in_the_dead_letter_with_the_reason(station: Station) -> None:
    activity = await station.enqueue(max_attempts=3)
    for crash in range(3):
        engine = await station.register()
        claim = await station.claim_one(engine=engine)
        assert claim.attempt == crash + 1
        await station.silence(15)
        await station.reap()
    assert await station.state(activity) is ActivityState.DEAD_LETTER
    assert await station.claim() == []
    ended = await station.result(activity)
    assert ended is not None
    assert ended.error is not None
    assert ended.error.kind is ErrorKind.WORKER_LOST
    assert "worker lost" in ended.error.message


async def test_the_dead_letter_of_a_lost_worker_carries_what_its_callback_needs(
    station: Station,
) -> None:
    await station.enqueue(max_attempts=1, payload=b'{"order":7}', codec="json")
    await station.claim_one()
    await station.silence(15)
    [reaped] = await station.reap()
    assert reaped.type == "work"
    assert (reaped.payload, reaped.codec) == (b'{"order":7}', "json")
    assert reaped.error is not None
    assert reaped.error.kind is ErrorKind.WORKER_LOST


@pytest.mark.parametrize("kind", [OutcomeKind.COMPLETED, OutcomeKind.FAILED])
async def test_a_final_outcome_counts_no_further_attempt(
    station: Station, kind: OutcomeKind
) -> None:
    activity = await station.enqueue()
    await station.end(await station.claim_one(), kind)
    assert (await station.look(activity)).attempt == 1


async def test_the_dead_letter_counts_the_attempts_that_ran(station: Station) -> None:
    activity = await station.enqueue(max_attempts=2)
    await station.fail_until_dead(activity)
    assert (await station.look(activity)).attempt == 2


@pytest.mark.parametrize("kind", [OutcomeKind.RELEASED, OutcomeKind.SNOOZED])
async def test_work_handed_back_or_snoozed_costs_no_attempt(
    station: Station, kind: OutcomeKind
) -> None:
    activity = await station.enqueue(max_attempts=1)
    for _ in range(5):
        claim = await station.claim_one()
        assert claim.attempt == 1
        await station.end(claim, kind)
        assert (await station.look(activity)).attempt == 0
    await station.end(await station.claim_one())
    assert await station.state(activity) is ActivityState.COMPLETED


async def test_a_hand_back_between_failures_keeps_the_failures(station: Station) -> None:
    await station.enqueue(max_attempts=2)
    await station.retry(await station.claim_one())
    await station.end(await station.claim_one(), OutcomeKind.RELEASED)
    last = await station.claim_one()
    assert last.attempt == 2
    assert (await station.retry(last)).state is ActivityState.DEAD_LETTER


async def test_zero_is_no_limit_whether_attempts_fail_or_are_lost(station: Station) -> None:
    activity = await station.enqueue(max_attempts=0)
    for _ in range(10):
        await station.retry(await station.claim_one())
    for _ in range(3):
        await station.claim_one(engine=await station.register())
        await station.silence(15)
        await station.reap()
    await station.beat()
    claim = await station.claim_one()
    assert claim.attempt == 14
    assert await station.state(activity) is ActivityState.PROCESSING


async def test_used_up_attempts_leave_the_last_error_as_the_result(station: Station) -> None:
    activity = await station.enqueue(max_attempts=1)
    await station.retry(await station.claim_one())
    ended = await station.result(activity)
    assert ended is not None
    assert ended.state is ActivityState.DEAD_LETTER
    assert ended.error == BOOM
    assert ended.result is None


async def test_a_non_retryable_failure_ends_at_once_whatever_attempts_remain(
    station: Station,
) -> None:
    activity = await station.enqueue(max_attempts=0)
    answer = await station.end(await station.claim_one(), OutcomeKind.FAILED)
    assert answer.state is ActivityState.FAILED
    ended = await station.result(activity)
    assert ended is not None
    assert ended.error == BOOM
