"""Rule 3: a claim carries a token of its own, and without the current one nothing can be written."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from tests.conformance.engines import Starts
from tests.conformance.eventually import WITHIN, eventually
from tests.conformance.station import Station, outcome, ref

from runnerq import activity
from runnerq.storage.records import AckStatus, ActivityState, ClaimRef, OutcomeKind

if TYPE_CHECKING:
    from tests.conformance.engines import Engines

    from runnerq.storage.records import Claim


async def test_every_attempt_has_a_token_that_was_never_used_before(station: Station) -> None:
    await station.enqueue_all(*(station.spec(max_attempts=0) for _ in range(100)))
    tokens: set[object] = set()
    for _ in range(3):
        claims = await station.claim(100)
        tokens |= {claim.token for claim in claims}
        await station.acknowledge(*(outcome(claim, OutcomeKind.RETRIED) for claim in claims))
    assert len(tokens) == 300


async def test_tokens_are_not_guessable_from_one_another(station: Station) -> None:
    await station.enqueue_all(*(station.spec() for _ in range(50)))
    tokens = sorted(claim.token.int for claim in await station.claim(50))
    gaps = [later - earlier for earlier, later in pairwise(tokens)]
    # 50 draws of 122 bits or more: neighbours lie about 2^116 apart, never within 2^90.
    assert min(gaps) > 2**90


@pytest.mark.parametrize("kind", list(OutcomeKind))
async def test_a_stale_owner_cannot_end_what_was_given_to_another(
    station: Station, kind: OutcomeKind
) -> None:
    await station.enqueue()
    stale = await station.claim_one()
    current = await station.steal(stale)
    answer = await station.end(stale, kind)
    assert answer.status is AckStatus.CLAIM_LOST
    assert answer.state is None
    assert await station.held(current)
    look = await station.look(current.id)
    assert look.status is ActivityState.PROCESSING
    assert look.attempt == current.attempt
    assert (await station.end(current, result=b'"mine"')).status is AckStatus.ACCEPTED
    ended = await station.result(current.id)
    assert ended is not None
    assert ended.result == b'"mine"'


@pytest.mark.parametrize("kind", list(OutcomeKind))
async def test_a_stale_owner_cannot_end_what_nobody_has_taken_yet(
    station: Station, kind: OutcomeKind
) -> None:
    await station.enqueue()
    stale = await station.claim_one()
    await station.silence(15)
    await station.reap()
    assert (await station.end(stale, kind)).status is AckStatus.CLAIM_LOST
    assert await station.state(stale.id) is ActivityState.PENDING


@pytest.mark.parametrize("kind", list(OutcomeKind))
async def test_a_stale_owner_cannot_change_what_another_has_ended(
    station: Station, kind: OutcomeKind
) -> None:
    await station.enqueue()
    stale = await station.claim_one()
    current = await station.steal(stale)
    await station.end(current, result=b'"first"')
    assert (await station.end(stale, kind, **_other(kind))).status is AckStatus.CLAIM_LOST
    ended = await station.result(current.id)
    assert ended is not None
    assert (ended.state, ended.result) == (ActivityState.COMPLETED, b'"first"')


def _other(kind: OutcomeKind) -> dict[str, bytes]:
    return {"result": b'"second"'} if kind is OutcomeKind.COMPLETED else {}


async def test_a_stale_owner_cannot_extend_the_lease_of_another(station: Station) -> None:
    await station.enqueue()
    stale = await station.claim_one()
    current = await station.steal(stale)
    assert await station.backend.extend_lease(station.queue, [ref(stale)], 10_000_000) == [False]
    assert (await station.look(current.id)).deadline == current.deadline


async def test_still_held_tells_current_claims_from_lost_ones(station: Station) -> None:
    await station.enqueue()
    await station.enqueue()
    lost, kept = await station.claim(2)
    await station.end(lost)
    refs = [ref(lost), ref(kept), ClaimRef(uuid4(), kept.token), ClaimRef(kept.id, uuid4())]
    assert await station.backend.still_held(station.queue, refs) == [False, True, False, False]
    assert await station.backend.extend_lease(station.queue, refs, 1) == [
        False,
        True,
        False,
        False,
    ]


async def test_an_invented_token_is_refused(station: Station) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    forged = outcome(claim)
    [answer] = await station.acknowledge(
        type(forged)(id=claim.id, token=uuid4(), kind=forged.kind, result=forged.result)
    )
    assert answer.status is AckStatus.CLAIM_LOST
    assert await station.held(claim)


async def test_a_token_opens_only_its_own_activity(station: Station) -> None:
    await station.enqueue()
    await station.enqueue()
    one, other = await station.claim(2)
    crossed = outcome(one)
    [answer] = await station.acknowledge(
        type(crossed)(id=one.id, token=other.token, kind=crossed.kind, result=crossed.result)
    )
    assert answer.status is AckStatus.CLAIM_LOST
    assert await station.held(one)
    assert await station.held(other)


async def test_the_same_engine_may_not_use_the_token_of_its_earlier_attempt(
    station: Station,
) -> None:
    await station.enqueue()
    earlier = await station.claim_one()
    await station.retry(earlier)
    later = await station.claim_one()
    answer = await station.end(earlier)
    assert answer.status is not AckStatus.ACCEPTED
    assert await station.held(later)


async def test_a_claim_belongs_to_its_queue(station: Station) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    [answer] = await station.backend.acknowledge(station.queue + "-other", [outcome(claim)])
    assert answer.status is AckStatus.CLAIM_LOST
    assert await station.backend.still_held(station.queue + "-other", [ref(claim)]) == [False]
    assert await station.held(claim)


async def test_a_late_result_does_not_recreate_a_deleted_activity(station: Station) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    await station.store.delete_activity(claim.id)
    assert (await station.end(claim)).status is AckStatus.CLAIM_LOST
    with pytest.raises(LookupError):
        await station.look(claim.id)


async def test_two_claimers_never_get_the_same_activity(station: Station) -> None:
    await station.enqueue_all(*(station.spec() for _ in range(60)))
    second = await station.store.another()
    rivals = [station.backend, second]
    engines = [await station.register() for _ in range(6)]

    async def claim_all(number: int) -> list[Claim]:
        rival = Station(station.store)
        rival.backend = rivals[number % 2]
        mine: list[Claim] = []
        while batch := await rival.claim(5, engine=engines[number]):
            mine += batch
        return mine

    shares = await asyncio.gather(*(claim_all(number) for number in range(6)))
    ids = [claim.id for share in shares for claim in share]
    assert len(ids) == len(set(ids)) == 60


async def test_worker_ids_are_unique_to_a_process_start(engines: Engines) -> None:
    @activity("work")
    async def work() -> None: ...

    first, second = await engines.start(work), await engines.start(work)
    assert first.engine_id != second.engine_id
    assert first.info.worker_id != second.info.worker_id
    assert str(first.info.pid) in first.info.worker_id


async def test_a_worker_that_learns_its_claim_is_lost_cancels_the_handler(
    station: Station, engines: Engines
) -> None:
    cancelled: list[int] = []
    starts = Starts()

    @activity("work", timeout=60)
    async def work() -> str:
        if starts("work") == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(1)
                raise
        return "second"

    first = await engines.start(work, max_workers=1)
    future = await engines.executor.activity("work").execute()
    await eventually(lambda: starts.of["work"] == 1)
    # The first engine is declared dead while it lives; its work goes to a second one.
    await station.store.forget_engine(first.engine_id)
    second = await engines.start(work, max_workers=1)
    assert await future.get_result(timeout=WITHIN) == "second"
    await eventually(lambda: cancelled)
    await eventually(lambda: first.busy == 0 and second.busy == 0)
    assert starts.of["work"] == 2
