"""Rule 6: an idempotency key is decided in the same step as the insert, by one of four behaviours."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.engines import Starts
from tests.conformance.eventually import WITHIN
from tests.conformance.station import Station

from runnerq import DuplicateActivity, activity
from runnerq.storage.records import (
    ActivityState,
    EnqueueStatus,
    IdempotencyBehavior,
    OutcomeKind,
)

if TYPE_CHECKING:
    from uuid import UUID

    from tests.conformance.engines import Engines

ALLOW, EXISTING, ON_FAILURE, NO_REUSE = IdempotencyBehavior
CREATED = EnqueueStatus.CREATED

LIVE = ("pending", "scheduled", "processing", "retrying", "completed")
ENDED_BADLY = ("failed", "dead_letter")
TABLE = [
    *((state, ALLOW, CREATED) for state in (*LIVE, *ENDED_BADLY)),
    *((state, EXISTING, EnqueueStatus.EXISTING) for state in (*LIVE, *ENDED_BADLY)),
    *((state, NO_REUSE, EnqueueStatus.DUPLICATE) for state in (*LIVE, *ENDED_BADLY)),
    *((state, ON_FAILURE, EnqueueStatus.EXISTING) for state in LIVE),
    *((state, ON_FAILURE, CREATED) for state in ENDED_BADLY),
]


async def holder_in(station: Station, state: str) -> UUID:
    """An activity that holds the key `k` and is in `state`."""
    delay = 60_000 if state == "scheduled" else 0
    holder = await station.enqueue(key="k", max_attempts=2, delay_ms=delay)
    if state in ("pending", "scheduled"):
        return holder
    claim = await station.claim_one()
    match state:
        case "retrying":
            await station.retry(claim, delay=60)
        case "completed":
            await station.end(claim)
        case "failed":
            await station.end(claim, OutcomeKind.FAILED)
        case "dead_letter":
            await station.retry(claim)
            await station.retry(await station.claim_one())
        case _:
            pass
    assert await station.state(holder) == state
    return holder


@pytest.mark.parametrize(("state", "behavior", "status"), TABLE)
async def test_what_an_enqueue_does_follows_from_the_holders_state_and_the_behavior(
    station: Station, state: str, behavior: IdempotencyBehavior, status: EnqueueStatus
) -> None:
    holder = await holder_in(station, state)
    asked = station.spec(key="k", behavior=behavior)
    [answer] = await station.enqueue_all(asked)
    assert answer.status is status
    assert answer.id == (asked.id if status is CREATED else holder)
    if status is not CREATED:
        with pytest.raises(LookupError):
            await station.look(asked.id)


@pytest.mark.parametrize("behavior", list(IdempotencyBehavior))
async def test_a_free_key_is_taken_whatever_the_behavior(
    station: Station, behavior: IdempotencyBehavior
) -> None:
    first = await station.enqueue(key="k", behavior=behavior)
    assert (await station.look(first)).idempotency_key == "k"
    again = await station.try_enqueue(key="k", behavior=EXISTING)
    assert (again.id, again.status) == (first, EnqueueStatus.EXISTING)


@pytest.mark.parametrize("behavior", [ALLOW, ON_FAILURE])
async def test_the_key_moves_to_the_new_activity(
    station: Station, behavior: IdempotencyBehavior
) -> None:
    await holder_in(station, "failed")
    newer = await station.enqueue(key="k", behavior=behavior)
    assert (await station.try_enqueue(key="k", behavior=EXISTING)).id == newer


async def test_nothing_is_created_when_the_existing_one_is_returned(station: Station) -> None:
    for _ in range(5):
        await station.try_enqueue(key="k")
    assert len(await station.claim(10)) == 1


NAMES = [
    (("a-b", "c"), ("a", "b-c")),
    (("a:b", "c"), ("a", "b:c")),
    (("a.b", "c"), ("a", "b.c")),
    (("a/b", "c"), ("a", "b/c")),
    (("a", "k"), ("b", "k")),
    (("a", "K"), ("a", "k")),
    (("a", "k"), ("a", "k ")),
    (("a", "é"), ("a", "e\u0301")),
    (("a", "1"), ("a", "01")),
]


@pytest.mark.parametrize(("one", "other"), NAMES)
async def test_type_and_key_are_never_confused(
    station: Station, one: tuple[str, str], other: tuple[str, str]
) -> None:
    for activity_type, key in (one, other):
        answer = await station.try_enqueue(activity_type, key=key, behavior=NO_REUSE)
        assert answer.status is CREATED


async def test_a_key_belongs_to_its_queue(station: Station) -> None:
    await station.enqueue(key="k", behavior=NO_REUSE)
    spec = station.spec(key="k", behavior=NO_REUSE)
    [answer] = await station.backend.enqueue(station.queue + "-other", [spec])
    assert answer.status is CREATED


@pytest.mark.parametrize("key", ["ключ", "🔑" * 100, "a'b\"c\\d", "%_*?", " ", "x" * 500])
async def test_any_text_is_a_key(station: Station, key: str) -> None:
    first = await station.enqueue(key=key)
    assert (await station.look(first)).idempotency_key == key
    assert (await station.try_enqueue(key=key)).id == first


async def test_a_key_with_a_time_to_live_is_free_after_it(station: Station) -> None:
    first = await station.enqueue(key="k", ttl_ms=60_000)
    await station.advance(59)
    assert (await station.try_enqueue(key="k", behavior=NO_REUSE)).id == first
    await station.advance(1)
    assert (await station.try_enqueue(key="k", behavior=NO_REUSE)).status is CREATED


async def test_a_key_without_a_time_to_live_is_held_as_long_as_the_activity(
    station: Station,
) -> None:
    first = await station.enqueue(key="k")
    await station.end(await station.claim_one())
    await station.advance(365 * 86_400)
    assert (await station.try_enqueue(key="k")).id == first


async def test_asking_again_does_not_prolong_a_key(station: Station) -> None:
    await station.enqueue(key="k", ttl_ms=60_000)
    await station.advance(30)
    await station.try_enqueue(key="k", ttl_ms=60_000)
    await station.advance(30)
    assert (await station.try_enqueue(key="k")).status is CREATED


@pytest.mark.parametrize("behavior", [EXISTING, NO_REUSE, ON_FAILURE])
async def test_fifty_callers_at_once_make_one_activity(
    station: Station, behavior: IdempotencyBehavior
) -> None:
    backends = [station.backend, await station.store.another()]
    specs = [station.spec(key="k", behavior=behavior) for _ in range(50)]
    answers = await asyncio.gather(
        *(backends[number % 2].enqueue(station.queue, [spec]) for number, spec in enumerate(specs))
    )
    ids = {answer.id for [answer] in answers}
    assert len(ids) == 1
    assert len([1 for [answer] in answers if answer.status is CREATED]) == 1
    assert [claim.id for claim in await station.claim(50)] == list(ids)


async def test_concurrent_batches_that_share_keys_in_opposite_order_do_not_lock_each_other_out(
    station: Station,
) -> None:
    backends = [station.backend, await station.store.another()]
    keys = [f"k{number}" for number in range(20)]

    async def enqueue(number: int) -> list[Any]:
        ordered = keys if number % 2 else list(reversed(keys))
        specs = [station.spec(key=key) for key in ordered]
        return await backends[number % 2].enqueue(station.queue, specs)

    answers = await asyncio.gather(*(enqueue(number) for number in range(8)))
    created = [one for answer in answers for one in answer if one.status is CREATED]
    assert len(created) == 20
    assert len(await station.claim(200)) == 20


async def test_fifty_callers_at_once_cause_one_run(engines: Engines) -> None:
    starts = Starts()

    @activity("work")
    async def work() -> str:
        starts("work")
        return "done"

    await engines.start(work)
    builder = engines.executor.activity("work").idempotency_key("k", behavior="return_existing")
    futures = await asyncio.gather(*(builder.execute() for _ in range(50)))
    assert len({future.id for future in futures}) == 1
    results = await asyncio.gather(*(future.get_result(timeout=WITHIN) for future in futures))
    assert results == ["done"] * 50
    assert starts.of["work"] == 1


async def test_within_one_call_the_first_takes_the_key(station: Station) -> None:
    specs = [
        station.spec(key="k", behavior=EXISTING),
        station.spec(key="k", behavior=EXISTING),
        station.spec(key="k", behavior=NO_REUSE),
        station.spec(key="k", behavior=ON_FAILURE),
    ]
    answers = await station.enqueue_all(*specs)
    assert [answer.status for answer in answers] == [
        CREATED,
        EnqueueStatus.EXISTING,
        EnqueueStatus.DUPLICATE,
        EnqueueStatus.EXISTING,
    ]
    assert {answer.id for answer in answers} == {specs[0].id}
    assert len(await station.claim(10)) == 1


async def test_within_one_call_reuse_creates_each_of_them(station: Station) -> None:
    specs = [station.spec(key="k", behavior=ALLOW) for _ in range(3)]
    answers = await station.enqueue_all(*specs)
    assert [answer.id for answer in answers] == [spec.id for spec in specs]
    assert {answer.status for answer in answers} == {CREATED}


async def test_keys_hold_in_bulk_as_they_do_one_by_one(station: Station) -> None:
    keyed = [station.spec(key=f"k{number % 10}") for number in range(30)]
    free = [station.spec() for _ in range(10)]
    answers = await station.enqueue_all(*keyed, *free)
    assert len([answer for answer in answers if answer.status is CREATED]) == 20


@pytest.mark.parametrize("behavior", list(IdempotencyBehavior))
async def test_repeating_an_enqueue_whose_answer_was_lost_is_harmless(
    station: Station, behavior: IdempotencyBehavior
) -> None:
    spec = station.spec(key="k", behavior=behavior)
    await station.enqueue_all(spec)
    for _ in range(3):
        [answer] = await station.enqueue_all(spec)
        assert (answer.id, answer.status) == (spec.id, EnqueueStatus.EXISTING)
    assert len(await station.claim(10)) == 1


async def test_repeating_an_enqueue_after_the_end_does_not_run_it_again(station: Station) -> None:
    spec = station.spec()
    await station.enqueue_all(spec)
    await station.end(await station.claim_one())
    [answer] = await station.enqueue_all(spec)
    assert (answer.id, answer.status) == (spec.id, EnqueueStatus.EXISTING)
    assert await station.claim() == []
    assert await station.state(spec.id) is ActivityState.COMPLETED


async def test_no_reuse_raises_for_the_caller_and_names_the_holder(engines: Engines) -> None:
    builder = engines.executor.activity("work").idempotency_key("k", behavior="no_reuse")
    first = await builder.execute()
    with pytest.raises(DuplicateActivity) as refused:
        await builder.execute()
    assert refused.value.existing_id == first.id
    assert "'k'" in str(refused.value)
