"""Storing how attempts ended, whatever the backend does."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import Rig, Signal

from runnerq import ActivityState, NonRetryable, SchemaMismatch, activity
from runnerq.engine import complete as complete_module
from runnerq.engine.gate import Closed
from runnerq.storage.records import ErrorKind, EventKind, OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runnerq import WorkerEngine
    from runnerq.storage.records import Acknowledgement


def gate_of(engine: WorkerEngine) -> frozenset[Closed]:
    return engine._gate.reasons  # pyright: ignore[reportPrivateUsage]


@activity("work")
async def work(value: int) -> int:
    return value


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complete_module, "FIRST_PAUSE", 0.005)
    monkeypatch.setattr(complete_module, "LONGEST_PAUSE", 0.02)


async def test_outcomes_are_kept_while_the_backend_is_down_and_stored_when_it_is_up(
    rig: Rig,
) -> None:
    go = Signal()

    @activity("held")
    async def held(value: int) -> int:
        await go.wait()
        return value

    engine = await rig.start(held)
    futures = [await rig.enqueue("held", number) for number in range(10)]
    await eventually(lambda: engine.busy == 10)
    rig.backend.fail("acknowledge", times=None)
    go.set()
    await eventually(lambda: Closed.UNFLUSHED in gate_of(engine))
    waiting = await rig.enqueue("held", 99)
    await eventually(lambda: rig.backend.calls["acknowledge"] >= 5)
    assert (await rig.look(waiting.id)).status is ActivityState.PENDING
    rig.backend.heal()
    assert [await rig.result(future) for future in futures] == list(range(10))
    assert await rig.result(waiting) == 99
    assert not gate_of(engine)


async def test_an_answer_that_is_lost_stores_the_outcome_once(rig: Rig) -> None:
    rig.backend.lose_answer("acknowledge", times=3)
    await rig.start(work)
    future = await rig.enqueue("work", 5)
    assert await rig.result(future) == 5
    await eventually(lambda: rig.backend.calls["acknowledge"] == 4)
    assert (await rig.events(future)).count(EventKind.COMPLETED) == 1


def concerns(activity_id: UUID) -> Any:
    def asked(queue: str, acknowledgements: Sequence[Acknowledgement]) -> bool:
        del queue
        return any(item.id == activity_id for item in acknowledgements)

    return asked


async def test_an_outcome_that_is_refused_does_not_hold_up_the_others(rig: Rig) -> None:
    go = Signal()

    @activity("held")
    async def held(value: int) -> int:
        await go.wait()
        return value

    engine = await rig.start(held)
    futures = [await rig.enqueue("held", number) for number in range(10)]
    await eventually(lambda: engine.busy == 10)
    poison = futures[4]

    def refused(queue: str, acknowledgements: Sequence[Acknowledgement]) -> bool:
        del queue
        return any(
            item.id == poison.id and item.kind is OutcomeKind.COMPLETED for item in acknowledgements
        )

    rig.backend.refuse("acknowledge", times=None, when=refused)
    go.set()
    for number, future in enumerate(futures):
        if future is not poison:
            assert await rig.result(future) == number
    snapshot = await rig.reaches(poison, ActivityState.FAILED)
    assert snapshot.error is not None
    assert (snapshot.error.kind, snapshot.error.message) == (
        ErrorKind.RESULT,
        "a fault of the test: refused",
    )
    assert not gate_of(engine)


@pytest.mark.parametrize("error", [None, ZeroDivisionError("a fault of the backend")])
async def test_an_outcome_that_is_refused_in_every_form_is_left_to_the_reaper(
    rig: Rig, error: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    engine = await rig.start(work)
    future = await rig.enqueue("work", 5, delay=0.05)
    if error is None:
        rig.backend.refuse("acknowledge", times=None, when=concerns(future.id))
    else:
        rig.backend.fail("acknowledge", times=None, error=error, when=concerns(future.id))
    await eventually(lambda: caplog.text.count("its outcome is refused by the backend") == 2)
    assert (await rig.look(future.id)).status is ActivityState.PROCESSING
    assert await rig.result(await rig.enqueue("work", 6)) == 6
    await engine.stop()
    rig.backend.heal()
    await rig.start(work)
    assert await rig.result(future) == 5


async def test_a_refusal_after_an_outage_opens_the_gate_again(rig: Rig) -> None:
    engine = await rig.start(work)
    future = await rig.enqueue("work", 5, delay=0.05)
    rig.backend.fail("acknowledge", when=concerns(future.id))
    rig.backend.refuse("acknowledge", times=2, when=concerns(future.id))
    await eventually(lambda: rig.backend.calls["acknowledge"] == 3)
    await eventually(lambda: not gate_of(engine))
    assert await rig.result(await rig.enqueue("work", 6)) == 6


async def test_a_schema_that_does_not_fit_is_waited_for_like_an_outage(rig: Rig) -> None:
    rig.backend.fail("acknowledge", times=3, error=SchemaMismatch("migrating"))
    await rig.start(work)
    assert await rig.result(await rig.enqueue("work", 5)) == 5
    assert rig.backend.calls["acknowledge"] == 4


async def test_a_slow_backend_holds_the_claims_back_before_the_pile_grows(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete_module, "MOST_UNSTORED", 20)
    stall = rig.backend.stall("acknowledge")
    engine = await rig.start(work, max_workers=10)
    futures = [await rig.enqueue("work", number) for number in range(200)]
    await eventually(lambda: Closed.UNFLUSHED in gate_of(engine))
    stats = await rig.memory.stats("q")
    assert stats.counts[ActivityState.PROCESSING] < 60
    stall.release()
    assert [await rig.result(future) for future in futures] == list(range(200))
    assert not gate_of(engine)


async def test_large_results_do_not_travel_together(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete_module, "LARGEST_BATCH_BYTES", 1000)
    go = Signal()
    batches: list[int] = []

    @activity("large")
    async def large() -> str:
        await go.wait()
        return "x" * 600

    def measure(queue: str, acknowledgements: Sequence[Acknowledgement]) -> bool:
        del queue
        batches.append(len(acknowledgements))
        return False

    rig.backend.fail("acknowledge", when=measure)
    engine = await rig.start(large)
    futures = [await rig.enqueue("large") for _ in range(10)]
    await eventually(lambda: engine.busy == 10)
    go.set()
    for future in futures:
        await rig.result(future)
    assert max(batches) <= 2


async def test_stop_flushes_what_is_still_to_be_stored(rig: Rig) -> None:
    rig.backend.fail("acknowledge", times=5)
    engine = await rig.start(work)
    futures = [await rig.enqueue("work", number) for number in range(50)]
    await eventually(lambda: rig.backend.calls["acknowledge"] >= 1)
    await engine.stop()
    states = Counter([(await rig.look(future.id)).status for future in futures])
    assert set(states) <= {ActivityState.COMPLETED, ActivityState.PENDING}
    assert states[ActivityState.COMPLETED] >= 1


async def test_flushed_waits_for_the_outcomes_of_what_has_ended(rig: Rig) -> None:
    engine = await rig.start(work)
    stall = rig.backend.stall("acknowledge")
    future = await rig.enqueue("work", 1)
    await eventually(lambda: stall.waiting == 1)
    waiting = asyncio.ensure_future(engine.flushed())
    await asyncio.sleep(0)
    assert not waiting.done()
    stall.release()
    await waiting
    assert (await rig.look(future.id)).status is ActivityState.COMPLETED


async def test_a_claim_that_was_lost_is_not_completed_and_is_counted(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    began, go = Signal(), Signal()

    @activity("held")
    async def held() -> str:
        if not began.is_set:
            began.set()
            await go.wait()
            return "first"
        return "second"

    engine = await rig.start(held, heartbeat_interval=4.0)
    future = await rig.enqueue("held")
    await began.wait()
    await rig.memory.retire_engine("q", engine.engine_id)
    other = await rig.start(held)
    assert await rig.result(future) == "second"
    go.set()
    await eventually(lambda: "came too late: its claim was lost" in caplog.text)
    assert await rig.result(future) == "second"
    assert other.busy == 0


async def test_a_refusal_keeps_how_long_the_handler_ran(rig: Rig) -> None:
    @activity("failing")
    async def failing() -> None:
        raise NonRetryable("x")

    await rig.start(failing)
    future = await rig.enqueue("failing", delay=0.05)
    rig.backend.refuse("acknowledge", when=concerns(future.id))
    snapshot = await rig.reaches(future, ActivityState.FAILED)
    assert snapshot.error is not None
    assert snapshot.error.kind is ErrorKind.RESULT
