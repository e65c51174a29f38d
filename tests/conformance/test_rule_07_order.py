"""Rule 7: priority, then retried work first, then due time, then id; nobody is starved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.station import outcome

from runnerq.storage.records import OutcomeKind, Priority

if TYPE_CHECKING:
    from uuid import UUID

    from tests.conformance.station import Station

    from runnerq.storage.records import Acknowledgement, Claim

AGEING_MS = 300_000


async def drain(station: Station, **request: Any) -> list[UUID]:
    """Every claimable activity, claimed one by one."""
    order: list[UUID] = []
    while claims := await station.claim(1, **request):
        order.append(claims[0].id)
    return order


async def failed_once(station: Station, count: int = 1, **fields: Any) -> list[UUID]:
    """Activities that failed once and are due again. Nothing else may be claimable."""
    specs = [station.spec(**fields) for _ in range(count)]
    await station.enqueue_all(*specs)
    claims = await station.claim(count, types=(specs[0].type,))
    await station.acknowledge(*(outcome(claim, OutcomeKind.RETRIED) for claim in claims))
    return [spec.id for spec in specs]


async def test_higher_priority_comes_first(station: Station) -> None:
    ids = {
        priority: await station.enqueue(priority=priority)
        for priority in (Priority.NORMAL, Priority.LOW, Priority.CRITICAL, Priority.HIGH)
    }
    assert await drain(station) == [ids[priority] for priority in sorted(Priority, reverse=True)]


async def test_within_a_priority_what_came_first_is_first(station: Station) -> None:
    ids = [await station.enqueue() for _ in range(10)]
    assert await drain(station) == ids


async def test_activities_of_one_instant_come_in_the_order_of_their_ids(station: Station) -> None:
    specs = [station.spec() for _ in range(20)]
    await station.enqueue_all(*reversed(specs))
    assert await drain(station) == [spec.id for spec in specs]


async def test_due_time_decides_not_the_time_of_the_enqueue(station: Station) -> None:
    late = await station.enqueue(delay_ms=20_000)
    early = await station.enqueue(delay_ms=10_000)
    await station.advance(30)
    now = await station.enqueue()
    assert await drain(station) == [early, late, now]


async def test_an_absolute_due_time_is_a_due_time(station: Station) -> None:
    [demand] = await station.backend.demand([station.queue], horizon_ms=1)
    later = await station.enqueue(run_at=demand.as_of + timedelta(seconds=20))
    sooner = await station.enqueue(run_at=demand.as_of + timedelta(seconds=10))
    await station.advance(30)
    assert await drain(station) == [sooner, later]


async def test_within_a_priority_retried_work_comes_first(station: Station) -> None:
    [retried] = await failed_once(station)
    fresh = await station.enqueue()
    assert await drain(station) == [retried, fresh]


async def test_more_often_retried_work_comes_before_less_often_retried(station: Station) -> None:
    [twice] = await failed_once(station, max_attempts=0)
    await station.retry(await station.claim_one())
    [once] = await failed_once_beside(station, twice)
    assert await drain(station) == [twice, once]


async def failed_once_beside(station: Station, other: UUID) -> list[UUID]:
    activity_id = await station.enqueue(max_attempts=0)
    both = await station.claim(2)
    assert {claim.id for claim in both} == {activity_id, other}
    for claim in both:
        kind = OutcomeKind.RELEASED if claim.id == other else OutcomeKind.RETRIED
        await station.end(claim, kind)
    return [activity_id]


async def test_priority_outweighs_retries(station: Station) -> None:
    [retried] = await failed_once(station, priority=Priority.NORMAL)
    high = await station.enqueue(priority=Priority.HIGH)
    assert await drain(station) == [high, retried]


async def test_work_handed_back_takes_its_old_place(station: Station) -> None:
    first = await station.enqueue()
    second = await station.enqueue()
    await station.end(await station.claim_one(), OutcomeKind.RELEASED)
    assert await drain(station) == [first, second]


async def test_order_holds_across_types(station: Station) -> None:
    a1 = await station.enqueue("a")
    b1 = await station.enqueue("b")
    b2 = await station.enqueue("b", priority=Priority.HIGH)
    a2 = await station.enqueue("a")
    assert await drain(station, types=("a", "b")) == [b2, a1, b1, a2]


async def test_a_batch_of_one_type_comes_in_order(station: Station) -> None:
    specs = [station.spec(priority=priority) for priority in (Priority.LOW, Priority.HIGH) * 5]
    await station.enqueue_all(*specs)
    wanted = sorted(specs, key=lambda spec: (-spec.priority, spec.id))
    claims = await station.claim(10)
    assert [claim.id for claim in claims] == [spec.id for spec in wanted]


async def test_a_batch_across_types_inverts_by_at_most_one_batch(station: Station) -> None:
    specs = [station.spec("ab"[number % 2]) for number in range(60)]
    await station.enqueue_all(*specs)
    batch = 10
    place = {spec.id: number for number, spec in enumerate(specs)}
    taken: list[UUID] = []
    while claims := await station.claim(batch, types=("a", "b")):
        taken += [claim.id for claim in claims]
    assert len(taken) == 60
    overtaken = [place[activity_id] - position for position, activity_id in enumerate(taken)]
    assert max(abs(number) for number in overtaken) <= batch * 2


async def test_a_batch_across_types_never_inverts_priorities(station: Station) -> None:
    specs = [
        station.spec(name, priority=priority)
        for name in ("a", "b")
        for priority in Priority
        for _ in range(3)
    ]
    await station.enqueue_all(*specs)
    claims = await station.claim(24, types=("a", "b"))
    priorities = [claim.priority for claim in claims]
    assert priorities == sorted(priorities, reverse=True)
    assert len(priorities) == 24


@pytest.mark.parametrize("limit", [2, 3, 10])
async def test_retries_take_at_most_half_of_a_batch_while_fresh_work_waits(
    station: Station, limit: int
) -> None:
    retried = set(await failed_once(station, limit))
    await station.enqueue_all(*(station.spec() for _ in range(limit)))
    claims = await station.claim(limit)
    assert len(claims) == limit
    assert len([claim for claim in claims if claim.id in retried]) == limit // 2


async def test_retries_fill_a_batch_when_no_fresh_work_waits(station: Station) -> None:
    await failed_once(station, 10)
    assert len(await station.claim(10)) == 10


async def test_retries_fill_what_fresh_work_leaves_free(station: Station) -> None:
    await failed_once(station, 10)
    await station.enqueue_all(*(station.spec() for _ in range(2)))
    claims = await station.claim(10)
    assert len(claims) == 10
    assert len([claim for claim in claims if claim.attempt == 1]) == 2


async def test_a_single_claim_keeps_retries_first(station: Station) -> None:
    retried = await failed_once(station, 3)
    fresh = [await station.enqueue() for _ in range(3)]
    assert await drain(station) == retried + fresh


async def test_a_failing_type_cannot_starve_fresh_work(station: Station) -> None:
    await failed_once(station, 20, activity_type="failing", max_attempts=0)
    await station.enqueue_all(*(station.spec("steady") for _ in range(20)))
    steady = 0
    for _ in range(8):
        claims = await station.claim(6, types=("failing", "steady"))
        steady += len([claim for claim in claims if claim.type == "steady"])
        await station.acknowledge(*map(_fails_again_or_completes, claims))
    assert steady == 20


def _fails_again_or_completes(claim: Claim) -> Acknowledgement:
    failing = claim.type == "failing"
    return outcome(claim, OutcomeKind.RETRIED if failing else OutcomeKind.COMPLETED)


async def test_fresh_work_of_a_lower_priority_does_not_limit_retries(station: Station) -> None:
    await failed_once(station, 10, priority=Priority.HIGH)
    await station.enqueue_all(*(station.spec(priority=Priority.LOW) for _ in range(10)))
    claims = await station.claim(10)
    assert {claim.priority for claim in claims} == {Priority.HIGH}


async def test_long_waiting_low_work_is_lifted_above_newer_work(station: Station) -> None:
    low = await station.enqueue(priority=Priority.LOW)
    await station.advance(AGEING_MS / 1000 * 3)
    high = await station.enqueue(priority=Priority.HIGH)
    assert (await station.claim_one(ageing_ms=AGEING_MS)).id == low
    assert (await station.claim_one(ageing_ms=AGEING_MS)).id == high


async def test_work_that_has_not_waited_long_enough_is_not_lifted(station: Station) -> None:
    low = await station.enqueue(priority=Priority.LOW)
    await station.advance(AGEING_MS / 1000 - 5)
    normal = await station.enqueue(priority=Priority.NORMAL)
    assert await drain(station, ageing_ms=AGEING_MS) == [normal, low]


async def test_without_ageing_priority_is_all(station: Station) -> None:
    low = await station.enqueue(priority=Priority.LOW)
    await station.advance(AGEING_MS / 1000 * 10)
    normal = await station.enqueue(priority=Priority.NORMAL)
    assert await drain(station, ageing_ms=None) == [normal, low]


async def test_low_work_is_not_starved_by_a_stream_of_critical_work(station: Station) -> None:
    low = await station.enqueue(priority=Priority.LOW)
    for _ in range(20):
        await station.enqueue_all(*(station.spec(priority=Priority.CRITICAL) for _ in range(2)))
        claim = await station.claim_one(ageing_ms=AGEING_MS)
        await station.end(claim)
        if claim.id == low:
            return
        await station.advance(60)
    raise AssertionError("low work was never claimed in 20 minutes")


async def test_a_due_time_in_the_past_gives_no_head_start(station: Station) -> None:
    first = await station.enqueue()
    backdated = await station.enqueue(run_at=datetime(2001, 1, 1, tzinfo=UTC))
    assert await drain(station) == [first, backdated]
