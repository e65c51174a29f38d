"""Rule 5: an attempt ends in one atomic step, result included; repeating it is harmless."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.eventually import WITHIN
from tests.conformance.station import BOOM, outcome

from runnerq import activity
from runnerq.errors import BackendUnavailable
from runnerq.storage.records import AckStatus, ActivityState, OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.engines import Engines
    from tests.conformance.station import Station

    from runnerq.storage.ports import Storage
    from runnerq.storage.records import Acknowledged, Acknowledgement, ErrorInfo

STATE_AFTER = {
    OutcomeKind.COMPLETED: ActivityState.COMPLETED,
    OutcomeKind.RETRIED: ActivityState.RETRYING,
    OutcomeKind.FAILED: ActivityState.FAILED,
    OutcomeKind.SNOOZED: ActivityState.SCHEDULED,
    OutcomeKind.RELEASED: ActivityState.PENDING,
}


@pytest.mark.parametrize(("kind", "state"), STATE_AFTER.items())
async def test_every_outcome_leads_to_its_state(
    station: Station, kind: OutcomeKind, state: ActivityState
) -> None:
    activity_id = await station.enqueue()
    answer = await station.end(await station.claim_one(), kind, delay_ms=5_000)
    assert (answer.id, answer.status, answer.state) == (activity_id, AckStatus.ACCEPTED, state)
    look = await station.look(activity_id)
    assert look.status is state
    assert look.deadline is None
    assert (look.finished_at is not None) is state.terminal


@pytest.mark.parametrize("kind", list(OutcomeKind))
async def test_repeating_an_acknowledgement_is_harmless(
    station: Station, kind: OutcomeKind
) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    first = await station.end(claim, kind, delay_ms=60_000)
    before = await station.look(claim.id)
    for _ in range(3):
        assert await station.end(claim, kind, delay_ms=60_000) == first
    assert await station.look(claim.id) == before
    events = await station.backend.get_activity_events(station.queue, claim.id)
    assert len([event for event in events if event.kind not in ("enqueued", "claimed")]) == 1


async def test_a_repetition_may_tell_another_run_time(station: Station) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    await station.end(claim, run_ms=10)
    assert (await station.end(claim, run_ms=11)).status is AckStatus.ACCEPTED


OTHER_OUTCOMES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"kind": OutcomeKind.COMPLETED}, {"kind": OutcomeKind.FAILED}),
    ({"kind": OutcomeKind.COMPLETED}, {"kind": OutcomeKind.RETRIED}),
    ({"kind": OutcomeKind.COMPLETED}, {"kind": OutcomeKind.RELEASED}),
    ({"kind": OutcomeKind.COMPLETED}, {"kind": OutcomeKind.COMPLETED, "result": b'"other"'}),
    ({"kind": OutcomeKind.FAILED}, {"kind": OutcomeKind.COMPLETED}),
    ({"kind": OutcomeKind.RETRIED}, {"kind": OutcomeKind.COMPLETED}),
    ({"kind": OutcomeKind.RELEASED}, {"kind": OutcomeKind.COMPLETED}),
    ({"kind": OutcomeKind.SNOOZED}, {"kind": OutcomeKind.RETRIED}),
]


@pytest.mark.parametrize(("first", "second"), OTHER_OUTCOMES)
async def test_another_outcome_for_the_same_attempt_is_a_conflict_and_the_first_stands(
    station: Station, first: dict[str, Any], second: dict[str, Any]
) -> None:
    await station.enqueue()
    claim = await station.claim_one()
    await station.end(claim, **first)
    before = await station.look(claim.id)
    answer = await station.end(claim, **second)
    assert answer.status is AckStatus.CONFLICT
    assert answer.state is None
    assert await station.look(claim.id) == before


async def test_a_repetition_after_the_next_claim_does_not_touch_that_claim(
    station: Station,
) -> None:
    await station.enqueue()
    first = await station.claim_one()
    await station.retry(first)
    second = await station.claim_one()
    assert (await station.retry(first)).status is AckStatus.ACCEPTED
    assert await station.held(second)
    assert (await station.end(second)).state is ActivityState.COMPLETED


async def test_a_null_result_is_a_result(station: Station) -> None:
    activity_id = await station.enqueue()
    await station.end(await station.claim_one(), result=b"null")
    ended = await station.result(activity_id)
    assert ended is not None
    assert ended.result == b"null"
    assert ended.error is None
    assert (await station.look(activity_id)).result == b"null"


async def test_a_null_result_reaches_the_future(engines: Engines) -> None:
    @activity("nothing")
    async def nothing() -> None: ...

    await engines.start(nothing)
    future = await engines.executor.activity("nothing").execute()
    assert await future.get_result(timeout=WITHIN) is None


async def test_the_result_is_there_in_the_same_moment_as_the_state(station: Station) -> None:
    other = await station.store.another()
    await station.enqueue_all(*(station.spec() for _ in range(40)))
    claims = await station.claim(40)
    torn: list[object] = []
    ended = asyncio.Event()

    async def watch() -> None:
        while not ended.is_set():
            for claim in claims:
                look = await other.get_activity(station.queue, claim.id)
                complete = look.status is ActivityState.COMPLETED
                if complete != (look.result is not None and look.finished_at is not None):
                    torn.append(look)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watch())
        for claim in claims:
            await station.end(claim)
        ended.set()
    assert torn == []


async def test_a_batch_of_mixed_outcomes_is_answered_in_input_order(station: Station) -> None:
    await station.enqueue_all(*(station.spec() for _ in range(6)))
    claims = await station.claim(6)
    await station.end(claims[5])
    kinds = list(OutcomeKind)
    acks = [outcome(claim, kind) for claim, kind in zip(claims, kinds, strict=False)]
    # The last one was acknowledged before, differently.
    answers = await station.acknowledge(*acks, outcome(claims[5], OutcomeKind.FAILED))
    assert [answer.id for answer in answers] == [claim.id for claim in claims]
    assert [answer.state for answer in answers] == [*(STATE_AFTER[kind] for kind in kinds), None]
    assert answers[5].status is AckStatus.CONFLICT


async def test_one_refused_item_does_not_spoil_its_batch(station: Station) -> None:
    await station.enqueue()
    await station.enqueue()
    stale, _ = await station.claim(2)
    await station.silence(15)
    await station.reap()
    rescuer = await station.register()
    mine = await station.claim(2, engine=rescuer)
    answers = await station.acknowledge(outcome(stale), *map(outcome, mine))
    assert [answer.status for answer in answers] == [
        AckStatus.CLAIM_LOST,
        AckStatus.ACCEPTED,
        AckStatus.ACCEPTED,
    ]


async def test_the_same_acknowledgement_twice_in_one_batch_is_harmless(station: Station) -> None:
    await station.enqueue()
    ack = outcome(await station.claim_one())
    answers = await station.acknowledge(ack, ack)
    assert [answer.status for answer in answers] == [AckStatus.ACCEPTED] * 2
    assert [answer.state for answer in answers] == [ActivityState.COMPLETED] * 2


async def test_an_empty_batch_is_nothing(station: Station) -> None:
    assert await station.acknowledge() == []


async def test_a_full_batch_ends_every_attempt(station: Station) -> None:
    await station.enqueue_all(*(station.spec() for _ in range(300)))
    claims = await station.claim(300)
    answers = await station.acknowledge(
        *(outcome(claim, result=b"%d" % number) for number, claim in enumerate(claims))
    )
    assert {answer.state for answer in answers} == {ActivityState.COMPLETED}
    for number in (0, 149, 299):
        ended = await station.result(claims[number].id)
        assert ended is not None
        assert ended.result == b"%d" % number


@pytest.mark.parametrize("error", [BOOM, None])
async def test_a_failure_is_stored_with_its_error(
    station: Station, error: ErrorInfo | None
) -> None:
    activity_id = await station.enqueue()
    await station.end(await station.claim_one(), OutcomeKind.FAILED, error=error)
    ended = await station.result(activity_id)
    assert ended is not None
    assert ended.error == error


async def test_an_unended_activity_has_no_result(station: Station) -> None:
    activity_id = await station.enqueue()
    assert await station.result(activity_id) is None
    claim = await station.claim_one()
    assert await station.result(activity_id) is None
    await station.retry(claim)
    assert await station.result(activity_id) is None


class Unreliable:
    """A backend whose acknowledgements fail five times: now before and now after they took effect."""

    def __init__(self, backend: Storage) -> None:
        self._backend = backend
        self.failures = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def acknowledge(
        self, queue: str, acknowledgements: Sequence[Acknowledgement]
    ) -> list[Acknowledged]:
        if self.failures >= 5:
            return await self._backend.acknowledge(queue, acknowledgements)
        self.failures += 1
        if self.failures % 2:
            await self._backend.acknowledge(queue, acknowledgements)
        raise BackendUnavailable("the connection broke")


async def test_an_acknowledgement_that_fails_five_times_is_stored_once(
    station: Station, engines: Engines
) -> None:
    runs = 0

    @activity("work")
    async def work() -> str:
        nonlocal runs
        runs += 1
        return "done"

    unreliable = Unreliable(station.backend)
    await engines.start(work, backend=unreliable)  # pyright: ignore[reportArgumentType]
    future = await engines.executor.activity("work").execute()
    assert await future.get_result(timeout=WITHIN) == "done"
    engine_gave_up = await station.look(future.id)
    assert engine_gave_up.status is ActivityState.COMPLETED
    assert runs == 1
    events = await station.backend.get_activity_events(station.queue, future.id)
    assert [event.kind for event in events] == ["enqueued", "claimed", "completed"]
