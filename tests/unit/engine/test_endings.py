"""on_failure and on_dead_letter: called after the end is stored, and harmless whatever they do."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import Rig, Signal

from runnerq import ActivityContext, ActivityState, NonRetryable, RetryPolicy, activity
from runnerq.engine import endings as endings_module
from runnerq.engine.gate import Closed
from runnerq.storage.records import ErrorInfo, ErrorKind

AT_ONCE = RetryPolicy(base=timedelta(0))


class Told:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, str]] = []

    async def failed(self, payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        del ctx
        self.calls.append(("failed", payload, error.message))

    def dead(self, payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        del ctx
        self.calls.append(("dead", payload, error.message))


def failing(**settings: Any) -> Any:
    async def work(how: str) -> str:
        match how:
            case "fail":
                raise NonRetryable("no")
            case "retry":
                raise ValueError("again")
            case _:
                return how

    return activity("work", retry=AT_ONCE, **settings)(work)


async def test_each_failure_calls_its_own_callback_once(rig: Rig) -> None:
    told = Told()
    await rig.start(failing(on_failure=told.failed, on_dead_letter=told.dead))
    await rig.reaches(await rig.enqueue("work", "fail"), ActivityState.FAILED)
    await eventually(lambda: told.calls == [("failed", "fail", "no")])
    await rig.reaches(await rig.enqueue("work", "retry"), ActivityState.DEAD_LETTER)
    await eventually(lambda: told.calls[1:] == [("dead", "retry", "again")])
    assert await rig.result(await rig.enqueue("work", "fine")) == "fine"
    assert len(told.calls) == 2


async def test_a_callback_gets_the_plain_value_of_a_payload_that_does_not_fit(rig: Rig) -> None:
    told = Told()
    await rig.start(failing(on_failure=told.failed))
    await rig.reaches(await rig.enqueue("work", {"not": "text"}), ActivityState.FAILED)
    await eventually(lambda: told.calls)
    assert told.calls[0][1] == {"not": "text"}


async def test_the_end_is_stored_before_the_callback_is_called(rig: Rig) -> None:
    seen: list[ActivityState] = []

    async def look(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        del payload, error
        seen.append((await rig.look(ctx.activity_id)).status)

    await rig.start(failing(on_failure=look))
    await rig.enqueue("work", "fail")
    await eventually(lambda: seen == [ActivityState.FAILED])


async def raise_error(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
    raise ValueError("of the callback")


async def raise_exit(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
    sys.exit(3)


def exit_in_a_thread(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
    sys.exit(3)


async def cancel_itself(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("callback", [raise_error, raise_exit, exit_in_a_thread, cancel_itself])
async def test_whatever_a_callback_raises_the_engine_goes_on(rig: Rig, callback: Any) -> None:
    engine = await rig.start(failing(on_failure=callback))
    for _ in range(3):
        await rig.reaches(await rig.enqueue("work", "fail"), ActivityState.FAILED)
    assert await rig.result(await rig.enqueue("work", "fine")) == "fine"
    assert engine.phase == "running"


async def test_a_plain_callback_that_hands_out_an_awaitable_is_awaited(rig: Rig) -> None:
    told = Told()

    def callback(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> Any:
        return told.failed(payload, ctx, error)

    await rig.start(failing(on_failure=callback))
    await rig.enqueue("work", "fail")
    await eventually(lambda: told.calls)


async def test_a_callback_that_hangs_ends_with_the_timeout_of_its_activity(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        await asyncio.sleep(3600)

    await rig.start(failing(on_failure=hang, timeout=0.05))
    await rig.enqueue("work", "fail")
    await eventually(lambda: "the end callback of work failed" in caplog.text)


async def test_too_many_waiting_callbacks_hold_the_claims_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings_module, "AT_ONCE", 2)
    monkeypatch.setattr(endings_module, "MOST_WAITING", 5)
    go = Signal()
    running = most = done = 0

    async def slow(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1
        done += 1

    engine = await rig.start(failing(on_failure=slow), max_workers=2, claim_batch=2)
    futures = [await rig.enqueue("work", "fail") for _ in range(50)]
    gate = engine._gate  # pyright: ignore[reportPrivateUsage]
    await eventually(lambda: Closed.CALLBACKS in gate.reasons)
    stats = await rig.memory.stats("q")
    assert stats.counts[ActivityState.PENDING] > 20
    go.set()
    for future in futures:
        await rig.reaches(future, ActivityState.FAILED)
    await eventually(lambda: done == 50)
    assert most == 2
    assert gate.is_open


async def test_stop_waits_for_callbacks_of_the_last_outcomes(rig: Rig) -> None:
    go, told = Signal(), Told()

    async def late(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        await go.wait()
        await told.failed(payload, ctx, error)

    stall = rig.backend.stall("acknowledge")
    engine = await rig.start(failing(on_failure=late))
    await rig.enqueue("work", "fail")
    await eventually(lambda: stall.waiting == 1)
    stopping = asyncio.ensure_future(engine.stop())
    await eventually(lambda: engine.phase == "stopping")
    stall.release()
    go.set()
    await stopping
    assert told.calls == [("failed", "fail", "no")]


async def test_stop_does_not_wait_for_ever_for_a_callback(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from runnerq.engine import worker_engine

    monkeypatch.setattr(worker_engine, "LAST_CALLBACKS", 0.05)
    monkeypatch.setattr(endings_module, "CANCEL_PATIENCE", 0.05)
    began = Signal()
    free = threading.Event()

    async def hang(payload: Any, ctx: ActivityContext, error: ErrorInfo) -> None:
        began.set()
        while not free.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    engine = await rig.start(failing(on_failure=hang))
    await rig.enqueue("work", "fail")
    await began.wait()
    before = time.monotonic()
    await engine.stop(grace=0)
    assert time.monotonic() - before < 10
    free.set()


async def test_work_of_a_dead_engine_that_has_no_attempt_left_calls_back(rig: Rig) -> None:
    told, began = Told(), Signal()

    async def hang() -> None:
        began.set()
        await asyncio.sleep(3600)

    # Whichever engine takes it back is the one that calls.
    definition = activity("hang", on_dead_letter=told.dead)(hang)
    dead = await rig.start(definition, heartbeat_interval=4.0)
    future = await rig.enqueue("hang", max_attempts=1)
    await began.wait()
    await rig.memory.retire_engine("q", dead.engine_id)
    await rig.start(definition)
    snapshot = await rig.reaches(future, ActivityState.DEAD_LETTER)
    assert snapshot.error is not None
    assert snapshot.error.kind is ErrorKind.WORKER_LOST
    await eventually(lambda: told.calls)
    assert told.calls[0][:2] == ("dead", None)
