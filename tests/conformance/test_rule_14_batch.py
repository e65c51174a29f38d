"""Rule 14: many activities in one step, an outcome for each, in input order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.eventually import WITHIN

from runnerq import ActivityExecutor, DuplicateActivity, InvalidActivity, activity
from runnerq.storage.records import (
    ActivityState,
    EnqueueStatus,
    IdempotencyBehavior,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.engines import Engines
    from tests.conformance.station import Station

    from runnerq.storage.ports import Storage
    from runnerq.storage.records import ActivitySpec, Enqueued


async def test_a_batch_is_answered_per_item_in_input_order(station: Station) -> None:
    held = await station.enqueue(key="held")
    stored = station.spec()
    await station.enqueue_all(stored)
    fresh, last = station.spec(), station.spec("other", key="held")
    answers = await station.enqueue_all(
        fresh,
        station.spec(key="held"),
        station.spec(key="held", behavior=IdempotencyBehavior.NO_REUSE),
        stored,
        last,
    )
    assert [(answer.id, answer.status) for answer in answers] == [
        (fresh.id, EnqueueStatus.CREATED),
        (held, EnqueueStatus.EXISTING),
        (held, EnqueueStatus.DUPLICATE),
        (stored.id, EnqueueStatus.EXISTING),
        (last.id, EnqueueStatus.CREATED),
    ]


async def test_an_empty_batch_is_nothing(station: Station) -> None:
    assert await station.enqueue_all() == []


async def test_a_thousand_activities_are_stored_in_one_call_each_as_it_was(
    station: Station,
) -> None:
    specs = [
        station.spec(
            f"type{number % 7}",
            payload=b"%d" % number,
            timeout_ms=1_000 + number,
            headers={"number": str(number)},
        )
        for number in range(1_000)
    ]
    answers = await station.enqueue_all(*specs)
    assert [answer.id for answer in answers] == [spec.id for spec in specs]
    claims = await station.claim(1_000, types=[f"type{number}" for number in range(7)])
    by_id = {claim.id: claim for claim in claims}
    assert len(by_id) == 1_000
    for spec in specs:
        claim = by_id[spec.id]
        assert (claim.type, claim.payload, claim.timeout_ms, claim.headers) == (
            spec.type,
            spec.payload,
            spec.timeout_ms,
            spec.headers,
        )


async def test_the_same_item_twice_in_one_call_is_stored_once(station: Station) -> None:
    spec = station.spec()
    answers = await station.enqueue_all(spec, spec)
    assert [answer.status for answer in answers] == [EnqueueStatus.CREATED, EnqueueStatus.EXISTING]
    assert len(await station.claim(10)) == 1


async def test_a_batch_is_visible_as_a_whole_or_not_at_all(station: Station) -> None:
    import asyncio

    other = await station.store.another()
    specs = [station.spec() for _ in range(200)]
    seen: set[int] = set()
    stored = asyncio.Event()

    async def watch() -> None:
        while not stored.is_set():
            seen.add((await other.stats(station.queue)).counts[ActivityState.PENDING])
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watch())
        await station.enqueue_all(*specs)
        seen.add((await other.stats(station.queue)).counts[ActivityState.PENDING])
        stored.set()
    assert seen <= {0, 200}
    assert 200 in seen


async def test_every_field_of_an_item_is_kept(station: Station) -> None:
    root, parent = await station.enqueue(), await station.enqueue()
    await station.claim(2)
    spec = station.spec(
        payload=b'{"a":1}',
        codec="json",
        max_attempts=9,
        timeout_ms=77,
        headers={"traceparent": "00-ab-cd-01"},
        root_id=root,
        parent_id=parent,
        depth=3,
    )
    await station.enqueue_all(spec)
    claim = await station.claim_one()
    assert (claim.payload, claim.codec, claim.max_attempts) == (b'{"a":1}', "json", 9)
    assert (claim.timeout_ms, claim.headers) == (77, {"traceparent": "00-ab-cd-01"})
    assert (claim.root_id, claim.parent_id, claim.depth) == (root, parent, 3)
    assert (claim.queue, claim.priority) == (station.queue, spec.priority)


class Counting:
    """Counts the enqueues that reach a backend."""

    def __init__(self, backend: Storage) -> None:
        self._backend = backend
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def enqueue(self, queue: str, specs: Sequence[ActivitySpec]) -> list[Enqueued]:
        self.calls += 1
        return await self._backend.enqueue(queue, specs)


async def test_execute_many_is_one_round_trip_with_a_future_per_item(
    station: Station, engines: Engines
) -> None:
    @activity("double")
    async def double(number: int) -> int:
        return number * 2

    await engines.start(double)
    counting = Counting(station.backend)
    executor = ActivityExecutor(counting, station.queue)  # pyright: ignore[reportArgumentType]
    futures = await executor.execute_many([double.payload(number) for number in range(50)])
    assert counting.calls == 1
    assert [await future.get_result(timeout=WITHIN) for future in futures] == [
        number * 2 for number in range(50)
    ]


async def test_execute_many_reports_a_duplicate_at_its_place(engines: Engines) -> None:
    builder = engines.executor.activity("work")
    keyed = builder.idempotency_key("k", behavior="no_reuse")
    futures = await engines.executor.execute_many([builder, keyed, keyed, builder])
    assert [future.status for future in futures] == [
        EnqueueStatus.CREATED,
        EnqueueStatus.CREATED,
        EnqueueStatus.DUPLICATE,
        EnqueueStatus.CREATED,
    ]
    assert futures[2].id == futures[1].id
    with pytest.raises(DuplicateActivity):
        await futures[2]


async def test_a_value_that_cannot_be_stored_is_refused_before_anything_is(
    station: Station, engines: Engines
) -> None:
    builder = engines.executor.activity("work")
    with pytest.raises(InvalidActivity):
        await engines.executor.execute_many(
            [builder.payload(value) for value in (1, float("nan"), 3)]
        )
    assert (await station.backend.stats(station.queue)).counts[ActivityState.PENDING] == 0


async def test_execute_many_of_nothing_asks_nothing(station: Station) -> None:
    counting = Counting(station.backend)
    executor = ActivityExecutor(counting, station.queue)  # pyright: ignore[reportArgumentType]
    assert await executor.execute_many([]) == []
    assert counting.calls == 0
