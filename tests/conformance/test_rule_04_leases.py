"""Rule 4: work is lent for a time to a process that shows signs of life, and comes back without both."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.conformance.engines import Starts
from tests.conformance.eventually import WITHIN
from tests.conformance.station import ref

from runnerq import activity
from runnerq.storage.records import (
    ActivityState,
    EngineState,
    EnqueueStatus,
    Heartbeat,
    IdempotencyBehavior,
)

if TYPE_CHECKING:
    from tests.conformance.engines import Engines
    from tests.conformance.station import Station
    from tests.conformance.stores import Store

    from runnerq.storage.records import Reaped

LEASES = [
    # timeout, floor, margin, lease: milliseconds
    (300_000, 60_000, 10_000, 310_000),
    (1, 60_000, 10_000, 60_000),
    (50_000, 60_000, 10_000, 60_000),
    (50_001, 60_000, 10_000, 60_001),
    (500, 0, 0, 500),
]


@pytest.mark.parametrize(("timeout", "floor", "margin", "lease"), LEASES)
async def test_the_lease_covers_the_timeout_and_never_falls_below_the_floor(
    station: Station, timeout: int, floor: int, margin: int, lease: int
) -> None:
    activity_id = await station.enqueue(timeout_ms=timeout)
    claim = await station.claim_one(lease_floor_ms=floor, lease_margin_ms=margin)
    assert claim.deadline - claim.claimed_at == timedelta(milliseconds=lease)
    assert (await station.look(activity_id)).deadline == claim.deadline


async def test_work_of_a_living_engine_is_left_alone_until_its_deadline(station: Station) -> None:
    await station.enqueue(timeout_ms=50_000)
    claim = await station.claim_one()
    for _ in range(5):
        await station.advance(10)
        assert await station.reap() == []
    await station.advance(10)
    assert [reaped.id for reaped in await station.reap()] == [claim.id]


async def test_work_of_a_silent_engine_comes_back_long_before_its_deadline(
    station: Station,
) -> None:
    await station.enqueue(timeout_ms=3_600_000)
    claim = await station.claim_one()
    await station.silence(14)
    assert await station.reap() == []
    await station.silence(1)
    assert [reaped.id for reaped in await station.reap()] == [claim.id]


async def test_reclaimed_work_is_pending_without_owner_and_remembers_the_last_one(
    station: Station,
) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    owner = (await station.look(claim.id)).worker_id
    assert owner is not None
    await station.silence(15)
    [reaped] = await station.reap()
    assert reaped.state is ActivityState.PENDING
    look = await station.look(claim.id)
    assert look.status is ActivityState.PENDING
    assert look.deadline is None
    assert look.worker_id == owner
    assert look.attempt == 1


async def test_reclaimed_work_can_be_claimed_again_at_once(station: Station) -> None:
    await station.enqueue()
    first = await station.claim_one()
    again = await station.steal(first)
    assert again.id == first.id
    assert again.token != first.token


async def test_a_stopped_engine_gives_its_work_back_at_once(station: Station) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    await station.backend.retire_engine(station.queue, station.engine)
    assert [reaped.id for reaped in await station.reap()] == [claim.id]


async def test_work_of_an_engine_that_nobody_knows_comes_back_at_once(station: Station) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    await station.store.forget_engine(station.engine)
    assert [reaped.id for reaped in await station.reap()] == [claim.id]


async def test_a_beat_does_not_bring_a_forgotten_engine_back(station: Station) -> None:
    await station.store.forget_engine(station.engine)
    assert not (await station.beat()).known
    await station.enqueue()
    assert await station.claim() == []


async def test_a_late_beat_does_not_bring_a_stopped_engine_back(station: Station) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    await station.backend.retire_engine(station.queue, station.engine)
    await station.beat()
    assert [reaped.id for reaped in await station.reap()] == [claim.id]
    await station.enqueue()
    assert await station.claim() == []


async def test_registering_again_is_harmless_for_the_claims_held(station: Station) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    await station.silence(14)
    await station.register(station.engine)
    await station.silence(14)
    assert await station.reap() == []
    assert await station.held(claim)


async def test_extending_moves_the_deadline_and_never_shortens_it(station: Station) -> None:
    await station.enqueue(timeout_ms=50_000)
    claim = await station.claim_one()
    assert await station.backend.extend_lease(station.queue, [ref(claim)], 1_000) == [True]
    assert (await station.look(claim.id)).deadline == claim.deadline
    assert await station.backend.extend_lease(station.queue, [ref(claim)], 600_000) == [True]
    longer = (await station.look(claim.id)).deadline
    assert longer is not None
    assert longer > claim.deadline + timedelta(seconds=500)
    for _ in range(6):
        await station.advance(14)
    assert await station.reap() == []


async def test_each_activity_has_its_own_deadline(station: Station) -> None:
    await station.enqueue("short", timeout_ms=1_000)
    await station.enqueue("long", timeout_ms=60_000)
    claims = await station.claim(2, types=("short", "long"), lease_floor_ms=0, lease_margin_ms=0)
    assert len(claims) == 2
    await station.advance(2)
    assert [reaped.type for reaped in await station.reap()] == ["short"]


async def test_a_page_of_living_claims_does_not_hide_a_lost_one(station: Station) -> None:
    doomed = await station.register()
    await station.enqueue_all(*(station.spec(timeout_ms=1_000_000) for _ in range(100)))
    await station.claim(100)
    await station.enqueue(timeout_ms=9_000_000)
    lost = await station.claim_one(engine=doomed)
    await station.advance(15)
    assert [reaped.id for reaped in await station.reap(100)] == [lost.id]


async def test_reaping_takes_no_more_than_its_limit_and_the_rest_the_next_time(
    station: Station,
) -> None:
    await station.enqueue_all(*(station.spec() for _ in range(25)))
    await station.claim(25)
    await station.silence(15)
    rounds = [len(await station.reap(10)) for _ in range(4)]
    assert rounds == [10, 10, 5, 0]


async def test_two_reapers_take_each_activity_back_once(station: Station) -> None:
    await station.enqueue_all(*(station.spec() for _ in range(40)))
    await station.claim(40)
    await station.silence(15)
    other = await station.store.another()

    async def sweep(number: int) -> list[Reaped]:
        backend = (station.backend, other)[number % 2]
        taken: list[Reaped] = []
        while page := await backend.reap(station.queue, limit=7, liveness_ms=15_000):
            taken += page
        return taken

    sweeps = await asyncio.gather(*(sweep(number) for number in range(4)))
    ids = [reaped.id for taken in sweeps for reaped in taken]
    assert len(ids) == len(set(ids)) == 40


async def test_a_delay_far_beyond_the_lease_still_means_one_run(station: Station) -> None:
    activity_id = await station.enqueue(timeout_ms=50_000, delay_ms=300_000)
    runs = 0
    for _ in range(10):
        await station.advance(60)
        assert await station.reap() == []
        for claim in await station.claim(10):
            runs += 1
            await station.end(claim)
    assert runs == 1
    assert await station.state(activity_id) is ActivityState.COMPLETED


async def test_the_key_of_a_crashed_activity_is_free_again_with_its_dead_letter(
    station: Station,
) -> None:
    reuse = IdempotencyBehavior.ALLOW_REUSE_ON_FAILURE
    first = await station.enqueue(key="k", behavior=reuse, max_attempts=1)
    await station.claim_one()
    blocked = await station.try_enqueue(key="k", behavior=reuse)
    assert (blocked.id, blocked.status) == (first, EnqueueStatus.EXISTING)
    await station.silence(15)
    await station.reap()
    assert (await station.try_enqueue(key="k", behavior=reuse)).status is EnqueueStatus.CREATED


async def test_a_beat_from_a_thread_counts_while_the_event_loop_is_blocked(
    station: Station,
) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    await station.silence(14)
    beat = Heartbeat(engine_id=station.engine, state=EngineState.RUNNING, busy=1)
    replies: list[bool] = []
    thread = threading.Thread(
        target=lambda: replies.append(station.backend.heartbeat_blocking(station.queue, beat).known)
    )
    thread.start()
    thread.join(10)  # blocks the loop on purpose: the beat must not need it
    assert replies == [True]
    await station.silence(14)
    assert await station.reap() == []
    assert await station.held(claim)


async def test_a_blocking_beat_of_an_unknown_engine_says_so(station: Station) -> None:
    beat = Heartbeat(engine_id=uuid4(), state=EngineState.RUNNING, busy=0)
    reply = await asyncio.to_thread(station.backend.heartbeat_blocking, station.queue, beat)
    assert not reply.known


async def test_a_handler_that_outlasts_the_liveness_time_runs_once(
    station: Station, engines: Engines
) -> None:
    starts = Starts()

    @activity("slow", timeout=30)
    async def slow() -> str:
        starts("slow")
        await asyncio.sleep(2.5)
        return "done"

    for _ in range(2):
        await engines.start(slow, heartbeat_interval=0.1, liveness_timeout=1.2)
    future = await engines.executor.activity("slow").execute()
    assert await future.get_result(timeout=WITHIN) == "done"
    assert starts.of["slow"] == 1
    assert (await station.look(future.id)).attempt == 1


async def test_a_handler_that_blocks_the_event_loop_does_not_make_its_engine_look_dead(
    station: Station, engines: Engines
) -> None:
    blocked, unblock = threading.Event(), threading.Event()

    @activity("rude", timeout=30)
    async def rude() -> str:
        blocked.set()
        unblock.wait(10)
        return "done"

    await engines.start(rude, heartbeat_interval=0.1, liveness_timeout=1.5)
    taken: list[Reaped] = []
    reaper = threading.Thread(target=_reap_elsewhere, args=(station.store, blocked, unblock, taken))
    reaper.start()
    future = await engines.executor.activity("rude").execute()
    assert await future.get_result(timeout=WITHIN) == "done"
    await asyncio.to_thread(reaper.join, 10)
    assert taken == []


def _reap_elsewhere(
    store: Store, blocked: threading.Event, unblock: threading.Event, taken: list[Reaped]
) -> None:
    """Another process's reaper, for longer than the liveness time, while the engine's loop stands."""

    async def sweep() -> None:
        backend = await store.another()
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            taken.extend(await backend.reap(store.queue, limit=100, liveness_ms=1_500))
            await asyncio.sleep(0.05)
        unblock.set()
        await backend.close()

    blocked.wait(10)
    asyncio.run(sweep())


async def test_work_of_a_dead_engine_is_taken_over_by_a_living_one(
    station: Station, engines: Engines
) -> None:
    @activity("work")
    async def work() -> str:
        return "rescued"

    future = await engines.executor.activity("work").execute()
    await station.claim_one()  # by a process that will not be heard of again
    await station.silence(15)
    await engines.start(work)
    assert await future.get_result(timeout=WITHIN) == "rescued"
    assert (await station.look(future.id)).attempt == 2
    assert await station.state(future.id) is ActivityState.COMPLETED
