"""An engine that runs for weeks: nothing grows with the number of attempts."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from datetime import timedelta

import psutil
from tests.unit.engine.rig import Rig

from runnerq import ActivityState, NonRetryable, RetryPolicy, activity

FAILURES = 100_000

ENDLESS_FAILURES = f"""
import asyncio, gc, json, psutil
from datetime import timedelta
from runnerq import RetryPolicy, WorkerEngine, activity
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.memory.store import ActivityStore

# Each failure is an event of its activity by design; here only the engine is weighed.
ActivityStore._record = lambda *_, **__: None

failures = 0
samples = []
done = asyncio.Event()

@activity("work", retry=RetryPolicy(base=timedelta(0)))
async def work(number: int) -> None:
    global failures
    failures += 1
    if failures % 10_000 == 0:
        gc.collect()
        samples.append(psutil.Process().memory_info().rss)
    if failures >= {FAILURES}:
        done.set()
    raise ValueError("x" * 1000) from KeyError(number)

async def main() -> None:
    backend = MemoryBackend()
    engine = WorkerEngine(backend, activities=[work], max_workers=50)
    work_of = engine.get_activity_executor().activity("work").max_attempts(0)
    await engine.get_activity_executor().execute_many([work_of.payload(n) for n in range(200)])
    await engine.start()
    await done.wait()
    await engine.stop(grace=0)
    print(json.dumps(samples))

asyncio.run(main())
"""


def test_a_hundred_thousand_failures_keep_the_memory_flat() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS_FAILURES],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    samples = json.loads(done.stdout)
    # The first sample is after 10,000: everything that is made once has been made.
    assert max(samples[1:]) - samples[0] < 16 * 1024 * 1024, samples


async def test_exceptions_and_payloads_of_ended_attempts_are_not_kept(rig: Rig) -> None:
    class Marked(Exception):
        pass

    @activity("work", retry=RetryPolicy(base=timedelta(hours=1)))
    async def work(how: str) -> None:
        await asyncio.sleep(0)
        raise Marked(how)

    @activity("sync")
    def sync(how: str) -> None:
        raise NonRetryable(how) from Marked(how)

    await rig.start(work, sync)
    for number in range(50):
        await rig.enqueue("work", str(number))
        await rig.reaches(await rig.enqueue("sync", str(number)), ActivityState.FAILED)
    gc.collect()
    alive = [one for one in gc.get_objects() if isinstance(one, Marked)]
    # The runner's or thread's last one may still be on its stack.
    assert len(alive) <= 2
    assert psutil.Process().num_threads() < 50
