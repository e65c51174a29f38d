"""An engine in a process of its own, to be signalled and killed.

    python -m tests.conformance.children URL SCHEMA QUEUE GRACE NAP

runs one and prints a line for each handler that begins.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.conformance.eventually import eventually

from runnerq import ActivityExecutor, WorkerEngine, activity, open_backend

if TYPE_CHECKING:
    import signal
    from types import TracebackType

    from tests.conformance.stores import Store

ROOT = Path(__file__).parents[2]
START_SECONDS = 30.0


class Child:
    """`nap`: seconds the handler sleeps instead of what its payload says."""

    def __init__(self, store: Store, *, grace: float = 20.0, nap: float | None = None) -> None:
        self._arguments = (
            store.url,
            store.schema or "",
            store.queue,
            str(grace),
            "" if nap is None else str(nap),
        )
        self.executor = ActivityExecutor(store.backend, store.queue)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError("the child was not started")
        return self._process

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.conformance.children", *self._arguments),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        await self._read_line("ready")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def until_started(self, count: int) -> None:
        """Until so many handlers have begun since the last call."""
        for _ in range(count):
            await self._read_line("started")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def exit_code(self, within: float) -> int:
        async with asyncio.timeout(within):
            return await self.process.wait()

    async def _read_line(self, expected: str) -> None:
        stream = self.process.stdout
        assert stream is not None
        async with asyncio.timeout(START_SECONDS):
            line = await stream.readline()
        assert line.decode().strip() == expected, f"the child ended or said {line!r}"


def _say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


async def _run(url: str, schema: str, queue: str, grace: str, nap: str) -> None:
    @activity("nap", timeout=900)
    async def handler(seconds: float) -> str:
        _say("started")
        await asyncio.sleep(float(nap) if nap else seconds)
        return "rested"

    backend = open_backend(url, queue=queue, schema=schema or None)
    await backend.open()
    engine = WorkerEngine(
        backend,
        activities=[handler],
        queue_name=queue,
        max_workers=10,
        drain_timeout=float(grace),
        heartbeat_interval=0.2,
        liveness_timeout=2.0,
        reaper_interval=0.2,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(engine.run_until_signal())
        await eventually(lambda: engine.healthy or running.done(), within=START_SECONDS)
        _say("ready")
    await backend.close()


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))
