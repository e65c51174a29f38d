"""What operator, workers and console tell each other: cordons, decisions, pods."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from tests.conformance.eventually import eventually

from runnerq import activity
from runnerq.storage.records import DecisionRecord, PodRecord

if TYPE_CHECKING:
    from datetime import datetime

    from tests.conformance.engines import Engines
    from tests.conformance.station import Station


async def now(station: Station) -> datetime:
    [demand] = await station.backend.demand([station.queue], horizon_ms=1)
    return demand.as_of


async def test_a_cordoned_engine_gets_nothing_from_the_moment_the_cordon_returns(
    station: Station,
) -> None:
    await station.enqueue()
    await station.backend.cordon(station.queue, [station.engine], cordoned=True)
    assert await station.claim() == []
    assert len(await station.claim(engine=await station.register())) == 1


async def test_a_cordoned_engine_keeps_what_it_has_and_may_finish_it(station: Station) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    await station.backend.cordon(station.queue, [station.engine], cordoned=True)
    assert await station.held(claim)
    assert (await station.end(claim)).state == "completed"


async def test_a_cordon_reaches_its_engine_with_the_next_beat_and_can_be_lifted(
    station: Station,
) -> None:
    assert not (await station.beat()).cordoned
    await station.backend.cordon(station.queue, [station.engine], cordoned=True)
    assert (await station.beat()).cordoned
    [demand] = await station.backend.demand([station.queue], horizon_ms=1)
    assert demand.engines[0].cordoned
    await station.backend.cordon(station.queue, [station.engine], cordoned=False)
    assert not (await station.beat()).cordoned
    await station.enqueue()
    assert len(await station.claim()) == 1


async def test_a_cordon_survives_registering_again(station: Station) -> None:
    await station.backend.cordon(station.queue, [station.engine], cordoned=True)
    await station.register(station.engine)
    assert (await station.beat()).cordoned


async def test_cordoning_an_engine_that_is_gone_is_harmless(station: Station) -> None:
    await station.backend.cordon(station.queue, [uuid4()], cordoned=True)
    await station.enqueue()
    assert len(await station.claim()) == 1


async def test_no_claim_slips_through_beside_a_cordon(station: Station) -> None:
    await station.enqueue_all(*(station.spec() for _ in range(200)))
    taken = 0

    async def keep_claiming() -> None:
        nonlocal taken
        while batch := await station.claim(1):
            taken += len(batch)

    async with asyncio.TaskGroup() as tasks:
        claiming = tasks.create_task(keep_claiming())
        await eventually(lambda: taken >= 5)
        await station.backend.cordon(station.queue, [station.engine], cordoned=True)
        before = len(await station.claim(1))
        await claiming
    assert before == 0
    stats = await station.backend.stats(station.queue)
    assert stats.counts["processing"] == taken  # pyright: ignore[reportArgumentType]


async def test_an_unregistered_engine_gets_nothing(station: Station) -> None:
    await station.enqueue()
    assert await station.claim(engine=uuid4()) == []


async def test_an_engine_of_another_queue_gets_nothing(station: Station) -> None:
    other = station.queue + "-other"
    await station.backend.enqueue(other, [station.spec()])
    station.queue = other
    assert await station.claim() == []


async def test_a_cordoned_engine_stops_claiming_and_resumes_when_it_is_lifted(
    station: Station, engines: Engines
) -> None:
    @activity("work")
    async def work() -> str:
        return "done"

    engine = await engines.start(work, heartbeat_interval=0.1)
    await station.backend.cordon(station.queue, [engine.engine_id], cordoned=True)
    future = await engines.executor.activity("work").execute()

    async def cordon_noticed() -> bool:
        [demand] = await station.backend.demand([station.queue], horizon_ms=1)
        return any(one.cordoned for one in demand.engines)

    await eventually(cordon_noticed)
    assert await station.state(future.id) == "pending"
    await station.backend.cordon(station.queue, [engine.engine_id], cordoned=False)
    assert await future.get_result(timeout=15) == "done"


def decision(station: Station, at: datetime, to: int, *, pool: str = "light") -> DecisionRecord:
    return DecisionRecord(
        queue=station.queue,
        pool=pool,
        at=at,
        from_replicas=1,
        to_replicas=to,
        reason="Backlog",
        summary=f"1 -> {to}: 40 waiting",
        detail={"claimable": 40, "terms": [{"name": "steady", "slots": 2.5}], "note": "日本\u0000"},
    )


async def test_decisions_come_back_whole_newest_first(station: Station) -> None:
    at = (await now(station)).replace(microsecond=0)
    made = [decision(station, at + timedelta(seconds=number), number) for number in range(5)]
    for one in made:
        await station.backend.record_decision(one)
    assert await station.backend.decisions(station.queue) == list(reversed(made))
    assert await station.backend.decisions(station.queue, limit=2) == [made[4], made[3]]


async def test_decisions_can_be_narrowed_to_a_pool(station: Station) -> None:
    at = await now(station)
    await station.backend.record_decision(decision(station, at, 1, pool="light"))
    await station.backend.record_decision(decision(station, at, 2, pool="heavy"))
    [found] = await station.backend.decisions(station.queue, pool="heavy")
    assert found.to_replicas == 2


async def test_decisions_are_shown_for_a_day(station: Station) -> None:
    await station.backend.record_decision(decision(station, await now(station), 1))
    await station.silence(23 * 3600)
    assert len(await station.backend.decisions(station.queue)) == 1
    await station.silence(2 * 3600)
    assert await station.backend.decisions(station.queue) == []


async def test_decisions_of_other_queues_are_not_shown(station: Station) -> None:
    await station.backend.record_decision(decision(station, await now(station), 1))
    assert await station.backend.decisions(station.queue + "-other") == []


async def test_pods_are_replaced_as_a_whole(station: Station) -> None:
    since = (await now(station)).replace(microsecond=0)

    def pod(name: str, phase: str = "ready") -> PodRecord:
        return PodRecord(
            queue=station.queue, pool="light", name=name, phase=phase, detail="d", since=since
        )

    assert await station.backend.pods(station.queue) == []
    await station.backend.record_pods(station.queue, [pod("b"), pod("a", "starting")])
    assert await station.backend.pods(station.queue) == [pod("a", "starting"), pod("b")]
    await station.backend.record_pods(station.queue, [pod("c")])
    assert await station.backend.pods(station.queue) == [pod("c")]
    await station.backend.record_pods(station.queue, [])
    assert await station.backend.pods(station.queue) == []


async def test_pods_of_other_queues_are_left_alone(station: Station) -> None:
    since = await now(station)
    pod = PodRecord(queue=station.queue, pool="p", name="n", phase="ready", since=since)
    await station.backend.record_pods(station.queue, [pod])
    await station.backend.record_pods(station.queue + "-other", [])
    assert [one.name for one in await station.backend.pods(station.queue)] == ["n"]
