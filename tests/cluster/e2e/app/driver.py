"""Enqueues jobs through the SDK from the environment of its pod, awaits them, prints what became of them.

`python -m e2e_app.driver SECONDS...`: one job for each. Two lines of JSON: when they were enqueued, and
at the end the result and the timeline of each.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from runnerq import QueueInspector, connect

from .work import Job, job


async def run(seconds: list[float]) -> None:
    async with await connect() as executor:
        at = time.time()
        calls = [job.payload(Job(number, each)) for number, each in enumerate(seconds)]
        futures = await executor.execute_many(calls)
        print(json.dumps({"enqueued_at": at, "ids": [str(one.id) for one in futures]}), flush=True)
        inspector = QueueInspector(executor.backend, executor.queue)
        outcomes: list[dict[str, object]] = []
        for future in futures:
            done = await future
            events = await inspector.get_activity_events(future.id)
            outcomes.append(
                {
                    "number": done.number,
                    "pod": done.pod,
                    "attempt": done.attempt,
                    "events": [event.kind.value for event in events],
                }
            )
        print(json.dumps({"outcomes": outcomes}), flush=True)


if __name__ == "__main__":
    asyncio.run(run([float(word) for word in sys.argv[1:]]))
