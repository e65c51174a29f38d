"""Slots and the gate: how many claims an engine holds, and when it takes none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import Rig, Signal

from runnerq import ActivityState, activity
from runnerq.engine.gate import Closed, Gate
from runnerq.engine.run import Runner

if TYPE_CHECKING:
    from runnerq.engine.attempt import Attempt
    from runnerq.storage.records import Acknowledgement


async def test_an_engine_never_holds_more_claims_than_it_has_slots(rig: Rig) -> None:
    go = Signal()
    running = most = 0

    @activity("work")
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    engine = await rig.start(work, max_workers=3)
    futures = [await rig.enqueue("work") for _ in range(10)]
    await eventually(lambda: running == 3)
    stats = await rig.memory.stats("q")
    assert stats.counts[ActivityState.PROCESSING] == 3
    assert engine.busy == 3
    go.set()
    for future in futures:
        await rig.result(future)
    assert most == 3
    await eventually(lambda: engine.busy == 0)


async def test_two_engines_share_the_work_and_run_each_activity_once(rig: Rig) -> None:
    runs: list[int] = []

    @activity("work")
    async def work(number: int) -> int:
        runs.append(number)
        await asyncio.sleep(0)
        return number

    await rig.start(work)
    await rig.start(work)
    futures = [await rig.enqueue("work", number) for number in range(300)]
    assert [await rig.result(future) for future in futures] == list(range(300))
    assert sorted(runs) == list(range(300))


async def test_a_fault_of_the_engine_itself_costs_neither_the_activity_nor_the_slot(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @activity("work")
    async def work() -> str:
        return "done"

    real = Runner.attempt
    faults = [RuntimeError("a fault of ours")]

    async def attempt(self: Runner, attempt: Attempt) -> Acknowledgement | None:
        if faults:
            raise faults.pop()
        return await real(self, attempt)

    monkeypatch.setattr(Runner, "attempt", attempt)
    await rig.start(work, max_workers=1)
    future = await rig.enqueue("work")
    snapshot = await rig.reaches(future, ActivityState.RETRYING)
    assert snapshot.error is not None
    assert snapshot.error.message == "a fault of ours"
    assert "could not be run" in caplog.text
    assert await rig.result(future) == "done"


def test_a_gate_is_open_only_without_any_reason_to_be_closed() -> None:
    gate = Gate()
    assert gate.is_open
    gate.set(Closed.CORDONED, closed=True)
    gate.set(Closed.CUT_OFF, closed=True)
    gate.set(Closed.CORDONED, closed=False)
    assert not gate.is_open
    assert gate.reasons == {Closed.CUT_OFF}
    gate.set(Closed.CUT_OFF, closed=False)
    assert gate.is_open
    gate.set(Closed.CUT_OFF, closed=False)
    assert gate.is_open


async def test_who_waits_at_a_gate_goes_on_when_the_last_reason_is_gone() -> None:
    gate = Gate()
    gate.set(Closed.STOPPING, closed=True)
    gate.set(Closed.UNFLUSHED, closed=True)
    waiting = asyncio.ensure_future(gate.wait_open())
    gate.set(Closed.STOPPING, closed=False)
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set(Closed.UNFLUSHED, closed=False)
    async with asyncio.timeout(5):
        await waiting
