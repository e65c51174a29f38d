"""Heartbeat and leases: never working on a claim that may be somebody else's."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import QUICK, Rig, Signal
from tests.unit.sdk.odd import odd

from runnerq import ActivityContext, ActivityState, ClaimLost, WorkerEngine, activity
from runnerq.engine import heartbeat as heartbeat_module
from runnerq.engine.gate import Closed
from runnerq.storage.records import EventKind

if TYPE_CHECKING:
    from runnerq import ActivityDefinition

CUT_OFF: dict[str, Any] = {
    "heartbeat_interval": 0.1,
    "liveness_timeout": 2.0,
    "reaper_interval": 0.05,
}


class Held:
    """A handler that runs until it is told to end, and tells how it was interrupted."""

    def __init__(self) -> None:
        self.began = Signal()
        self.go = Signal()
        self.interrupted_after: list[float] = []
        self.contexts: list[ActivityContext] = []

    @property
    def definition(self) -> ActivityDefinition[Any, Any]:
        @activity("held")
        async def held(ctx: ActivityContext) -> str:
            self.contexts.append(ctx)
            began = time.monotonic()
            self.began.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.interrupted_after.append(time.monotonic() - began)
                raise
            return f"attempt {ctx.attempt}"

        return held


def gate_of(engine: WorkerEngine) -> frozenset[Closed]:
    return engine._gate.reasons  # pyright: ignore[reportPrivateUsage]


async def engine_of(rig: Rig, engine: WorkerEngine) -> Any:
    [demand] = await rig.memory.demand(["q"], horizon_ms=0)
    [status] = [one for one in demand.engines if one.info.engine_id == engine.engine_id]
    return status


async def test_an_engine_tells_of_itself_with_every_heartbeat(rig: Rig) -> None:
    held = Held()
    engine = await rig.start(held.definition, pool="mail", pod="mail-1", build_id="b7")
    await rig.enqueue("held")
    await held.began.wait()

    async def told() -> bool:
        status = await engine_of(rig, engine)
        return status.busy == 1 and status.counters["held"].started == 1

    await eventually(told)
    info = (await engine_of(rig, engine)).info
    assert (info.pool, info.pod, info.build_id, info.slots) == ("mail", "mail-1", "b7", 10)
    assert info.types == ("held",)
    assert str(engine.engine_id.hex[-8:]) in info.worker_id
    held.go.set()


async def test_an_engine_whose_loop_is_blocked_stays_alive(rig: Rig) -> None:
    @activity("block")
    async def block() -> int:
        before = rig.backend.calls["heartbeat_blocking"]
        deadline = time.monotonic() + 15
        while rig.backend.calls["heartbeat_blocking"] < before + 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)  # noqa: ASYNC251 - blocking the loop is the point
        return 5

    engine = await rig.start(block)
    assert await rig.result(await rig.enqueue("block")) == 5
    assert engine.healthy


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_an_engine_that_is_cut_off_cancels_its_handlers_before_it_is_taken_for_dead(
    rig: Rig, how: str
) -> None:
    held = Held()
    engine = await rig.start(held.definition, **CUT_OFF)
    future = await rig.enqueue("held")
    await held.began.wait()
    if how == "fails":
        rig.backend.cut_off()
    else:
        rig.backend.stall("heartbeat_blocking", "acknowledge", "claim", "still_held")
    silent_since = time.monotonic()
    await eventually(lambda: held.interrupted_after)
    assert time.monotonic() - silent_since < 2.0
    assert Closed.CUT_OFF in gate_of(engine)
    assert (await rig.look(future.id)).status is ActivityState.PROCESSING
    held.go.set()
    rig.backend.heal()
    # Handed back as soon as the backend answers, not when the lease has run out.
    assert await rig.result(future) == "attempt 1"
    assert EventKind.RELEASED in await rig.events(future)
    await eventually(lambda: not gate_of(engine))


async def test_what_was_taken_over_meanwhile_is_not_handed_back(rig: Rig) -> None:
    held = Held()
    engine = await rig.start(held.definition, **CUT_OFF)
    future = await rig.enqueue("held")
    await held.began.wait()
    rig.backend.cut_off()
    await eventually(lambda: held.interrupted_after)
    await rig.memory.retire_engine("q", engine.engine_id)
    await rig.memory.reap("q", limit=10, liveness_ms=2000)
    assert (await rig.look(future.id)).attempt == 1
    held.go.set()
    rig.backend.heal()
    assert await rig.result(future) == "attempt 2"
    assert EventKind.RELEASED not in await rig.events(future)


async def test_a_forgotten_engine_hands_its_claims_back_and_introduces_itself_again(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held()
    engine = await rig.start(held.definition)
    future = await rig.enqueue("held")
    await held.began.wait()
    rig.backend.fail("register_engine", times=2)
    # Retired behind its back: to the backend this engine is nobody now.
    await rig.memory.retire_engine("q", engine.engine_id)
    await eventually(lambda: held.interrupted_after)
    assert "no longer knows this engine" in caplog.text
    held.go.set()
    assert (await rig.result(future)).startswith("attempt")
    assert rig.backend.calls["register_engine"] >= 4


async def test_a_claim_that_was_stolen_is_noticed_and_its_handler_cancelled(rig: Rig) -> None:
    held = Held()
    await rig.start(held.definition)
    future = await rig.enqueue("held")
    await held.began.wait()
    [engine_row] = (await rig.memory.demand(["q"], horizon_ms=0))[0].engines
    assert engine_row.busy <= 1
    # Somebody else decides that the lease is over.
    row = rig.memory._activities.row("q", future.id)  # pyright: ignore[reportPrivateUsage]
    row.deadline_ms = 0
    await eventually(lambda: held.interrupted_after)
    held.go.set()
    assert await rig.result(future) == "attempt 2"
    assert held.contexts[0].cancelled
    assert not held.contexts[1].cancelled
    with pytest.raises(ClaimLost):
        await held.contexts[0].extend(5)


async def test_a_cordoned_engine_claims_nothing_and_finishes_what_it_has(rig: Rig) -> None:
    held = Held()
    engine = await rig.start(held.definition)
    first = await rig.enqueue("held")
    await held.began.wait()
    await rig.memory.cordon("q", [engine.engine_id], cordoned=True)
    second = await rig.enqueue("held")
    await eventually(lambda: Closed.CORDONED in gate_of(engine))
    held.go.set()
    assert await rig.result(first) == "attempt 1"
    claims = rig.backend.calls["claim"]
    beats = rig.backend.calls["heartbeat_blocking"]
    await eventually(lambda: rig.backend.calls["heartbeat_blocking"] > beats + 3)
    assert rig.backend.calls["claim"] == claims
    assert (await rig.look(second.id)).status is ActivityState.PENDING
    await rig.memory.cordon("q", [engine.engine_id], cordoned=False)
    assert await rig.result(second) == "attempt 1"


async def test_whatever_a_heartbeat_raises_the_next_one_follows(rig: Rig) -> None:
    engine = await rig.start(Held().definition)
    rig.backend.fail("heartbeat_blocking", times=2, error=ZeroDivisionError("a bug"))
    rig.backend.refuse("heartbeat_blocking", times=2)
    beats = rig.backend.calls["heartbeat_blocking"]
    await eventually(lambda: rig.backend.calls["heartbeat_blocking"] > beats + 6)
    assert engine.healthy


async def test_a_short_outage_interrupts_nobody(rig: Rig) -> None:
    held = Held()
    engine = await rig.start(held.definition)
    future = await rig.enqueue("held")
    await held.began.wait()
    rig.backend.fail("heartbeat_blocking", "still_held", times=5)
    beats = rig.backend.calls["heartbeat_blocking"]
    await eventually(lambda: rig.backend.calls["heartbeat_blocking"] > beats + 7)
    held.go.set()
    assert await rig.result(future) == "attempt 1"
    assert held.interrupted_after == []
    assert engine.healthy


async def test_an_engine_is_unhealthy_while_the_backend_does_not_answer(rig: Rig) -> None:
    engine = await rig.start(Held().definition, **CUT_OFF)
    assert engine.healthy
    rig.backend.cut_off()
    await eventually(lambda: not engine.healthy)
    rig.backend.heal()
    await eventually(lambda: engine.healthy)


async def test_a_heartbeat_that_hangs_does_not_hold_up_the_stop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(heartbeat_module, "STOP_PATIENCE", 0.05)
    engine = await rig.start(Held().definition)
    stall = rig.backend.stall("heartbeat_blocking")
    await eventually(lambda: stall.waiting == 1)
    await engine.stop(grace=0)
    assert "thread is left behind" in caplog.text
    stall.release()


async def test_work_of_a_dead_engine_is_taken_over_and_counts_an_attempt(rig: Rig) -> None:
    held = Held()
    dead = await rig.start(held.definition, **CUT_OFF)
    future = await rig.enqueue("held")
    await held.began.wait()
    stall = rig.backend.stall("heartbeat_blocking")
    await eventually(lambda: stall.waiting == 1)
    # The other one has a line of its own to the backend.
    alive = WorkerEngine(rig.memory, activities=[held.definition], **odd({**QUICK, **CUT_OFF}))
    acknowledgements = rig.backend.stall("acknowledge")
    await alive.start()
    try:
        snapshot = await eventually(lambda: held.contexts[1:])
        assert snapshot[0].attempt == 2
        held.go.set()
        acknowledgements.release()
        assert await rig.result(future) == "attempt 2"
        assert held.interrupted_after
    finally:
        await alive.stop()
    assert dead.busy == 0


async def test_a_handler_that_runs_longer_than_its_liveness_time_runs_once(rig: Rig) -> None:
    runs: list[int] = []

    @activity("long", timeout=timedelta(seconds=30))
    async def long(ctx: ActivityContext) -> int:
        runs.append(ctx.attempt)
        beats = rig.backend.calls["heartbeat_blocking"]
        began = time.monotonic()
        await eventually(
            lambda: (
                rig.backend.calls["heartbeat_blocking"] > beats + 20
                and time.monotonic() - began > 2.2
            )
        )
        return ctx.attempt

    await rig.start(long, **CUT_OFF)
    await rig.start(long, **CUT_OFF)
    assert await rig.result(await rig.enqueue("long")) == 1
    assert runs == [1]
