"""What people and the operator are shown: counts, lists, demand. A failed read is never a number."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.conformance.station import outcome

from runnerq import ActivityNotFound
from runnerq.storage.records import ActivityState, EngineState, OutcomeKind, TypeCounters
from runnerq.storage.records import Heartbeat as Beat

if TYPE_CHECKING:
    from uuid import UUID

    from tests.conformance.station import Station

    from runnerq.storage.records import TypeDemand


async def one_in_every_state(station: Station) -> dict[ActivityState, UUID]:
    """An activity in each state that this version can reach."""
    for _ in range(5):
        await station.enqueue(max_attempts=2)
    processing, completed, failed, dead, retrying = await station.claim(5)
    await station.end(completed)
    await station.end(failed, OutcomeKind.FAILED)
    await station.retry(dead)
    await station.retry(await station.claim_one())
    await station.retry(retrying, delay=60)
    return {
        ActivityState.PROCESSING: processing.id,
        ActivityState.COMPLETED: completed.id,
        ActivityState.FAILED: failed.id,
        ActivityState.DEAD_LETTER: dead.id,
        ActivityState.RETRYING: retrying.id,
        ActivityState.PENDING: await station.enqueue(),
        ActivityState.SCHEDULED: await station.enqueue(delay_ms=60_000),
    }


async def test_stats_count_every_state(station: Station) -> None:
    ids = await one_in_every_state(station)
    stats = await station.backend.stats(station.queue)
    assert stats.queue == station.queue
    assert {state: stats.counts[state] for state in ids} == dict.fromkeys(ids, 1)
    assert stats.counts[ActivityState.CANCELLED] == 0
    assert stats.capped == frozenset()
    assert stats.cap >= 1_000


async def test_stats_by_type_hold_live_states_only(station: Station) -> None:
    await one_in_every_state(station)
    await station.enqueue("other")
    by_type = (await station.backend.stats(station.queue)).by_type
    work = {state: count for state, count in by_type["work"].items() if count}
    assert work == {
        ActivityState.PENDING: 1,
        ActivityState.SCHEDULED: 1,
        ActivityState.RETRYING: 1,
        ActivityState.PROCESSING: 1,
    }
    assert {state: count for state, count in by_type["other"].items() if count} == {
        ActivityState.PENDING: 1
    }


async def test_stats_of_an_empty_queue_are_zero(station: Station) -> None:
    stats = await station.backend.stats(station.queue)
    assert set(stats.counts.values()) == {0}
    assert stats.oldest_claimable_age_ms is None
    assert not any(sum(counts.values()) for counts in stats.by_type.values())


async def test_stats_tell_the_age_of_the_oldest_claimable_work(station: Station) -> None:
    await station.enqueue(delay_ms=10_000)
    assert (await station.backend.stats(station.queue)).oldest_claimable_age_ms is None
    await station.advance(40)
    age = (await station.backend.stats(station.queue)).oldest_claimable_age_ms
    assert age is not None
    assert 30_000 <= age < 60_000


@pytest.mark.parametrize("state", [state for state in ActivityState if state != "cancelled"])
async def test_each_state_has_its_list(station: Station, state: ActivityState) -> None:
    ids = await one_in_every_state(station)
    page = await station.backend.list_activities(station.queue, state)
    assert [item.id for item in page.items] == [ids[state]]
    assert page.items[0] == await station.look(ids[state])
    assert page.next_cursor is None


@pytest.mark.parametrize("ended", [False, True])
async def test_lists_are_newest_first_and_paged_without_gaps_or_repeats(
    station: Station, ended: bool
) -> None:
    specs = [station.spec() for _ in range(25)]
    await station.enqueue_all(*specs)
    state = ActivityState.PENDING
    if ended:
        state = ActivityState.COMPLETED
        await station.acknowledge(*map(outcome, await station.claim(25)))
    seen: list[UUID] = []
    cursor = None
    sizes: list[int] = []
    while True:
        page = await station.backend.list_activities(station.queue, state, limit=10, cursor=cursor)
        seen += [item.id for item in page.items]
        sizes.append(len(page.items))
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sizes == [10, 10, 5]
    assert seen == [spec.id for spec in reversed(specs)]


async def test_a_page_is_not_disturbed_by_what_comes_meanwhile(station: Station) -> None:
    specs = [station.spec() for _ in range(10)]
    await station.enqueue_all(*specs)
    first = await station.backend.list_activities(station.queue, ActivityState.PENDING, limit=5)
    await station.enqueue_all(*(station.spec() for _ in range(5)))
    second = await station.backend.list_activities(
        station.queue, ActivityState.PENDING, limit=5, cursor=first.next_cursor
    )
    assert [item.id for item in (*first.items, *second.items)] == [
        spec.id for spec in reversed(specs)
    ]


@pytest.mark.parametrize("ended", [False, True])
async def test_a_list_can_be_narrowed_to_a_type(station: Station, ended: bool) -> None:
    specs = [station.spec("ab"[number % 2]) for number in range(10)]
    await station.enqueue_all(*specs)
    state = ActivityState.PENDING
    if ended:
        state = ActivityState.COMPLETED
        await station.acknowledge(*map(outcome, await station.claim(10, types=("a", "b"))))
    page = await station.backend.list_activities(station.queue, state, limit=3, activity_type="b")
    rest = await station.backend.list_activities(
        station.queue, state, limit=3, activity_type="b", cursor=page.next_cursor
    )
    found = [item.id for item in (*page.items, *rest.items)]
    assert found == [spec.id for spec in reversed(specs) if spec.type == "b"]


@pytest.mark.parametrize("cursor", ["", "nonsense", "id-xyz", "' OR 1=1 --", "🦊"])
async def test_a_cursor_that_no_list_gave_out_is_refused(station: Station, cursor: str) -> None:
    with pytest.raises(ValueError, match="given out by a list"):
        await station.backend.list_activities(station.queue, ActivityState.PENDING, cursor=cursor)


async def test_lists_show_only_their_queue(station: Station) -> None:
    await station.backend.enqueue(station.queue + "-other", [station.spec()])
    page = await station.backend.list_activities(station.queue, ActivityState.PENDING)
    assert page.items == ()


async def test_an_activity_is_shown_whole(station: Station) -> None:
    spec = station.spec(
        payload=b'{"a":1}', headers={"h": "v"}, key="k", max_attempts=4, timeout_ms=5_000
    )
    await station.enqueue_all(spec)
    look = await station.look(spec.id)
    assert (look.queue, look.type, look.status) == (station.queue, "work", ActivityState.PENDING)
    assert (look.payload, look.codec, look.headers) == (b'{"a":1}', "json", {"h": "v"})
    assert (look.max_attempts, look.timeout_ms, look.idempotency_key) == (4, 5_000, "k")
    assert look.claimed_at is look.deadline is look.finished_at is look.worker_id is None
    claim = await station.claim_one()
    look = await station.look(spec.id)
    assert (look.claimed_at, look.deadline) == (claim.claimed_at, claim.deadline)
    assert (look.created_at, look.ready_at) == (claim.created_at, claim.ready_at)
    assert look.worker_id is not None
    await station.end(claim, result=b'{"r":2}')
    look = await station.look(spec.id)
    assert (look.status, look.result, look.result_codec) == ("completed", b'{"r":2}', "json")
    assert look.payload == b'{"a":1}'
    assert look.finished_at is not None
    assert look.finished_at >= claim.claimed_at


async def test_a_retried_activity_shows_its_last_error(station: Station) -> None:
    activity_id = await station.enqueue()
    await station.retry(await station.claim_one(), delay=5)
    look = await station.look(activity_id)
    assert look.error is not None
    assert look.error.message == "it broke"


async def test_an_unknown_id_is_an_error_everywhere(station: Station) -> None:
    unknown = station.new_id()
    known = await station.enqueue()
    for queue, activity_id in ((station.queue, unknown), (station.queue + "-other", known)):
        for read in (
            station.backend.get_activity(queue, activity_id),
            station.backend.get_activity_events(queue, activity_id),
            station.backend.get_result(queue, activity_id),
            station.backend.wait_for_result(queue, activity_id, 0.01),
        ):
            with pytest.raises(ActivityNotFound, match=str(activity_id)):
                await read


async def test_an_id_that_is_no_uuid7_is_unknown_too(station: Station) -> None:
    with pytest.raises(ActivityNotFound):
        await station.backend.get_result(station.queue, uuid4())


async def test_queues_with_work_are_listed(station: Station) -> None:
    other = station.queue + "-other"
    await station.backend.enqueue(other, [station.spec()])
    await station.enqueue()
    listed = await station.backend.list_queues()
    assert {station.queue, other} <= set(listed)
    assert listed == sorted(listed)


async def demand_of(
    station: Station, name: str = "work", *, horizon_ms: int = 30_000
) -> TypeDemand:
    [demand] = await station.backend.demand([station.queue], horizon_ms=horizon_ms)
    [found] = [entry for entry in demand.types if entry.type == name]
    return found


async def test_demand_tells_what_is_claimable_running_and_coming(station: Station) -> None:
    for delay_ms in (0, 0, 0, 10_000, 20_000, 60_000):
        await station.enqueue(delay_ms=delay_ms)
    await station.claim_one()
    demand = await demand_of(station)
    assert (demand.claimable, demand.claimable_capped, demand.running) == (2, False, 1)
    assert (demand.due_soon, demand.future) == (2, 3)


async def test_demand_ages_from_the_moment_work_became_claimable(station: Station) -> None:
    await station.enqueue(delay_ms=20_000)
    assert (await demand_of(station)).oldest_claimable_age_ms is None
    await station.advance(25)
    age = (await demand_of(station)).oldest_claimable_age_ms
    assert age is not None
    assert 5_000 <= age < 20_000


async def test_demand_of_reclaimed_work_ages_from_the_reclaim(station: Station) -> None:
    await station.enqueue()
    await station.claim_one()
    await station.silence(600)
    await station.reap()
    age = (await demand_of(station)).oldest_claimable_age_ms
    assert age is not None
    assert age < 60_000


async def test_demand_counts_backing_off_work_as_coming(station: Station) -> None:
    await station.enqueue()
    await station.retry(await station.claim_one(), delay=20)
    demand = await demand_of(station)
    assert (demand.claimable, demand.running, demand.due_soon, demand.future) == (0, 0, 1, 1)
    assert (await demand_of(station, horizon_ms=5_000)).due_soon == 0


async def test_demand_sums_priorities_and_retries_of_a_type(station: Station) -> None:
    for priority in (1, 2, 3, 4):
        await station.enqueue(priority=priority)
    await station.retry(await station.claim_one())
    assert (await demand_of(station)).claimable == 4


async def test_demand_answers_for_several_queues_in_input_order(station: Station) -> None:
    other = station.queue + "-other"
    await station.backend.enqueue(other, [station.spec("b")])
    await station.enqueue("a")
    names = [other, station.queue, station.queue + "-nothing"]
    answer = await station.backend.demand(names, horizon_ms=1)
    assert [entry.queue for entry in answer] == names
    assert [[one.type for one in entry.types] for entry in answer] == [["b"], ["a"], []]


async def test_demand_shows_the_engines(station: Station) -> None:
    counters = {"work": TypeCounters(5, 4, 1_234, 99.5)}
    beat = Beat(engine_id=station.engine, state=EngineState.DRAINING, busy=3, counters=counters)
    await station.backend.heartbeat(station.queue, beat)
    await station.silence(7)
    [demand] = await station.backend.demand([station.queue], horizon_ms=1)
    [engine] = demand.engines
    assert engine.info.engine_id == station.engine
    assert (engine.info.host, engine.info.pid, engine.info.slots) == ("host", 7, 10)
    assert engine.info.types == ("work",)
    assert (engine.state, engine.busy, engine.cordoned) == (EngineState.DRAINING, 3, False)
    assert engine.counters == counters
    assert 7_000 <= engine.heartbeat_age_ms < 20_000
    assert demand.as_of - engine.started_at >= timedelta(seconds=7)


async def test_a_stopped_engine_is_no_longer_shown_as_running(station: Station) -> None:
    await station.backend.retire_engine(station.queue, station.engine)
    [demand] = await station.backend.demand([station.queue], horizon_ms=1)
    assert [one for one in demand.engines if one.state is not EngineState.STOPPED] == []


async def test_counters_beyond_32_bits_survive(station: Station) -> None:
    counters = {"work": TypeCounters(2**40, 2**41, 2**50, 1e30)}
    beat = Beat(engine_id=station.engine, state=EngineState.RUNNING, busy=0, counters=counters)
    await station.backend.heartbeat(station.queue, beat)
    [demand] = await station.backend.demand([station.queue], horizon_ms=1)
    assert demand.engines[0].counters == counters


async def test_dead_letters_are_requeued_with_all_attempts_again(station: Station) -> None:
    activity_id = await station.enqueue(max_attempts=2)
    await station.fail_until_dead(activity_id)
    answer = await station.backend.requeue_dead_letters(station.queue, [activity_id], actor="alice")
    assert answer == [True]
    look = await station.look(activity_id)
    assert (look.status, look.attempt, look.finished_at) == (ActivityState.PENDING, 0, None)
    assert await station.result(activity_id) is None
    claim = await station.claim_one()
    assert (claim.id, claim.attempt) == (activity_id, 1)
    await station.retry(claim)
    await station.end(await station.claim_one())
    assert await station.state(activity_id) is ActivityState.COMPLETED


async def test_only_dead_letters_are_requeued_each_once(station: Station) -> None:
    ids = await one_in_every_state(station)
    asked = [*ids.values(), station.new_id()]
    answers = await station.backend.requeue_dead_letters(station.queue, asked, actor="bob")
    assert answers == [activity_id == ids[ActivityState.DEAD_LETTER] for activity_id in asked]
    again = await station.backend.requeue_dead_letters(station.queue, asked, actor="bob")
    assert not any(again)


async def test_a_dead_letter_of_another_queue_stays_dead(station: Station) -> None:
    activity_id = await station.enqueue(max_attempts=1)
    await station.fail_until_dead(activity_id)
    answer = await station.backend.requeue_dead_letters(
        station.queue + "-other", [activity_id], actor="eve"
    )
    assert answer == [False]
    assert await station.state(activity_id) is ActivityState.DEAD_LETTER


async def test_a_requeued_activity_keeps_its_key(station: Station) -> None:
    activity_id = await station.enqueue(max_attempts=1, key="k")
    await station.fail_until_dead(activity_id)
    await station.backend.requeue_dead_letters(station.queue, [activity_id], actor="alice")
    assert (await station.try_enqueue(key="k")).id == activity_id
    assert (await station.look(activity_id)).idempotency_key == "k"
