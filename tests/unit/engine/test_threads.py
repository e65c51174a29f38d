"""Plain handlers in threads: bounded, abandoned when they hang, never in the way of the exit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import Rig

from runnerq import ActivityContext, ActivityState, RetryPolicy, activity
from runnerq.engine import run as run_module
from runnerq.engine.threads import ThreadSlots
from runnerq.storage.records import ErrorKind

if TYPE_CHECKING:
    from collections.abc import Iterator

LATER = RetryPolicy(base=timedelta(seconds=30))


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a handler hangs on; opened at the end of the test, so that its thread can end."""
    event = threading.Event()
    yield event
    event.set()


class Counting:
    """A sync handler that counts how many of it run at once."""

    def __init__(self, gate: threading.Event) -> None:
        self.gate = gate
        self.lock = threading.Lock()
        self.now = self.most = 0

    def __call__(self) -> str:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.gate.wait(30)
        with self.lock:
            self.now -= 1
        return threading.current_thread().name


async def test_no_more_threads_work_at_once_than_are_allowed(
    rig: Rig, gate: threading.Event
) -> None:
    counting = Counting(gate)
    await rig.start(activity("work")(counting), max_workers=8, sync_threads=3)
    futures = [await rig.enqueue("work") for _ in range(20)]
    await eventually(lambda: counting.now == 3)
    gate.set()
    assert {await rig.result(future) for future in futures} == {"runnerq-sync"}
    assert counting.most == 3


async def test_threads_are_reused(rig: Rig) -> None:
    @activity("work")
    def work() -> int:
        return threading.get_ident()

    await rig.start(work)
    used = {await rig.result(await rig.enqueue("work")) for _ in range(20)}
    assert len(used) == 1


async def test_waiting_for_a_thread_costs_no_timeout(rig: Rig) -> None:
    @activity("work")
    def work() -> float:
        time.sleep(0.1)  # the handler is what takes the time
        return time.monotonic()

    await rig.start(work, max_workers=6, sync_threads=1)
    futures = [await rig.enqueue("work", timeout=0.4) for _ in range(6)]
    assert len({await rig.result(future) for future in futures}) == 6


async def test_a_lease_is_counted_from_anew_after_a_long_wait_for_a_thread(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "LONG_WAIT", 0.01)

    @activity("work")
    def work() -> str:
        time.sleep(0.05)
        return "done"

    await rig.start(work, max_workers=2, sync_threads=1)
    futures = [await rig.enqueue("work") for _ in range(2)]
    assert [await rig.result(future) for future in futures] == ["done", "done"]
    assert rig.backend.calls["extend_lease"] == 1


@pytest.mark.parametrize("refused", [True, False])
async def test_a_lease_that_cannot_be_renewed_hands_the_claim_back_before_the_handler_runs(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    monkeypatch.setattr(run_module, "LONG_WAIT", 0.01)
    if refused:
        rig.backend.refuse("extend_lease")
    else:
        rig.backend.fail("extend_lease")

    @activity("work")
    def work(ctx: ActivityContext) -> int:
        time.sleep(0.05)
        return ctx.attempt

    await rig.start(work, max_workers=2, sync_threads=1)
    futures = [await rig.enqueue("work") for _ in range(2)]
    assert [await rig.result(future) for future in futures] == [1, 1]
    assert rig.backend.calls["extend_lease"] >= 1


async def test_a_handler_that_hangs_loses_its_thread_and_not_its_slot(
    rig: Rig, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[bool] = []

    @activity("work", retry=LATER)
    def work(hang: bool, ctx: ActivityContext) -> str:
        if hang:
            gate.wait(30)
            told.append(ctx.cancelled)
        return "done"

    await rig.start(work, max_workers=1)
    hanging = await rig.enqueue("work", True, timeout=0.02)
    snapshot = await rig.reaches(hanging, ActivityState.RETRYING)
    assert snapshot.error is not None
    assert snapshot.error.kind is ErrorKind.TIMEOUT
    assert await rig.result(await rig.enqueue("work", False)) == "done"
    assert "a sync handler outlives its attempt; 1 such threads now" in caplog.text
    gate.set()
    await eventually(lambda: told == [True])


async def test_hanging_handlers_do_not_multiply_without_end(
    rig: Rig, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    counting = Counting(gate)
    work = activity("work", timeout=0.02, retry=RetryPolicy(base=timedelta(milliseconds=1)))(
        counting
    )
    await rig.start(work, max_workers=4, sync_threads=2)
    future = await rig.enqueue("work", timeout=0.02, max_attempts=0)
    await eventually(lambda: "too many sync handlers hang" in caplog.text)
    await eventually(lambda: counting.now >= 4)
    assert counting.most <= 5
    gate.set()
    assert await rig.result(future) == "runnerq-sync"


async def test_stop_does_not_wait_for_a_thread_that_hangs(rig: Rig, gate: threading.Event) -> None:
    @activity("work")
    def work() -> None:
        gate.wait(30)

    engine = await rig.start(work)
    future = await rig.enqueue("work")
    await rig.reaches(future, ActivityState.PROCESSING)
    began = time.monotonic()
    await engine.stop(grace=0.05)
    assert time.monotonic() - began < 10
    snapshot = await rig.look(future.id)
    assert (snapshot.status, snapshot.attempt) == (ActivityState.PENDING, 0)


async def test_a_machine_without_threads_left_fails_the_attempt_and_keeps_the_slot(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    @activity("work", retry=LATER)
    def work() -> str:
        return "done"

    await rig.start(work, max_workers=1, sync_threads=1)

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        failed = await rig.reaches(await rig.enqueue("work"), ActivityState.RETRYING)
    assert failed.error is not None
    assert "can't start new thread" in failed.error.message
    assert await rig.result(await rig.enqueue("work")) == "done"


async def test_an_idle_thread_keeps_nothing_alive() -> None:
    class Big:
        pass

    slots = ThreadSlots(1)
    import weakref

    seen: list[weakref.ref[Big]] = []

    def make() -> Big:
        big = Big()
        seen.append(weakref.ref(big))
        return big

    thread = await slots.acquire()
    await thread.run(make)
    slots.release(thread)
    await eventually(lambda: seen[0]() is None)
    slots.close()


async def test_a_cancelled_wait_for_a_thread_takes_none() -> None:
    slots = ThreadSlots(1)
    held = await slots.acquire()
    waiting = asyncio.ensure_future(slots.acquire())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    slots.release(held)
    async with asyncio.timeout(5):
        again = await slots.acquire()
    slots.release(again)
    slots.close()


NEVER_ENDING = """
import asyncio, threading
from runnerq import WorkerEngine, activity
from runnerq.storage.memory import MemoryBackend

started = threading.Event()

@activity("work", timeout=0.05)
def work() -> None:
    started.set()
    threading.Event().wait()

async def main() -> None:
    engine = WorkerEngine(MemoryBackend(), activities=[work])
    await engine.start()
    await engine.get_activity_executor().activity("work").timeout(0.05).execute()
    while not started.is_set():
        await asyncio.sleep(0.01)
    await engine.stop(grace=0)
    print("stopped")

asyncio.run(main())
"""


def test_a_process_ends_although_a_handler_never_does() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NEVER_ENDING],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "stopped\n"), done.stderr
