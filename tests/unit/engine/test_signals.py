"""SIGTERM and SIGINT: a clean stop with exit code 0, and the handlers of before afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import Rig

from runnerq import activity

if TYPE_CHECKING:
    from types import FrameType

WORKER = """
import asyncio
from runnerq import WorkerEngine, activity
from runnerq.storage.memory import MemoryBackend

@activity("work")
async def work(seconds: float) -> None:
    print("began", flush=True)
    await asyncio.sleep(seconds)
    print("finished", flush=True)

async def main() -> None:
    backend = MemoryBackend()
    engine = WorkerEngine(backend, activities=[work], drain_timeout={grace})
    future = await engine.get_activity_executor().activity("work").payload({seconds}).execute()
    await engine.run_until_signal()
    snapshot = await backend.get_activity("default", future.id)
    print(snapshot.status, snapshot.attempt, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("seconds", "grace", "expected"),
    [(0.3, 10, ["finished", "completed 1"]), (3600, 0, ["pending 0"])],
)
def test_a_signal_ends_a_worker_with_code_0(
    number: signal.Signals, seconds: float, grace: float, expected: list[str]
) -> None:
    code = WORKER.format(seconds=seconds, grace=grace)
    worker = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "began\n"
        worker.send_signal(number)
        out, errors = worker.communicate(timeout=60)
    finally:
        worker.kill()
    assert worker.returncode == 0, errors
    assert out.splitlines() == expected


@activity("work")
async def work() -> None: ...


async def test_who_handled_a_signal_before_handles_it_again_afterwards(rig: Rig) -> None:
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        seen.append(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for number in before:
            signal.signal(number, note)
        engine = rig.make(work)
        running = asyncio.ensure_future(engine.run_until_signal())
        await eventually(lambda: engine.phase == "running")
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(15):
            await running
        assert seen == []
        assert all(signal.getsignal(number) is note for number in before)
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually(lambda: seen == [signal.SIGTERM])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def test_handlers_are_restored_when_the_start_fails(rig: Rig) -> None:
    before = signal.getsignal(signal.SIGTERM)
    engine = rig.make()
    with pytest.raises(Exception, match="there is no handler"):
        await engine.run_until_signal()
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_engine_in_another_thread_is_stopped_by_a_call() -> None:
    ended: list[str] = []

    async def main() -> None:
        made = Rig()
        engine = made.make(work)
        running = asyncio.ensure_future(engine.run_until_signal())
        await eventually(lambda: engine.phase == "running")
        engine.request_stop()
        await running
        ended.append(engine.phase)

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join(30)
    assert ended == ["stopped"]
