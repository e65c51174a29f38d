"""Measures an engine on a backend: how fast it enqueues, how fast it works a backlog off, and how long
one activity takes from enqueue to result. Figures are of this machine and this moment; compare ratios.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec

from runnerq.activity import activity
from runnerq.engine import WorkerEngine
from runnerq.errors import ConfigurationError
from runnerq.executor import ActivityExecutor

if TYPE_CHECKING:
    from collections.abc import Callable

    from runnerq.storage.ports import Storage

TYPE = "runnerq.bench"
ENQUEUE_BATCH = 1_000


class BenchPlan(msgspec.Struct, frozen=True, kw_only=True):
    activities: int = 20_000
    max_workers: int = 400
    payload_bytes: int = 64
    latency_samples: int = 200
    foreign: int = 0
    """Waiting activities of a type nobody here runs: they must not slow the others down."""
    future: int = 0
    """Activities of the measured type that are due in a day: likewise."""

    def __post_init__(self) -> None:
        for name in ("activities", "max_workers"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{getattr(self, name)} is less than 1", field=name)
        for name in ("payload_bytes", "latency_samples", "foreign", "future"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{getattr(self, name)} is negative", field=name)


class BenchReport(msgspec.Struct, frozen=True, kw_only=True):
    """Rates are per second, latencies milliseconds. `cpu_seconds` is this process alone."""

    backend: str
    plan: BenchPlan
    enqueued_per_second: float
    processed_per_second: float
    cpu_seconds_per_1000: float
    latency_ms_p50: float | None
    latency_ms_p99: float | None


async def run_bench(
    backend: Storage,
    plan: BenchPlan,
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> BenchReport:
    """Run the plan in a queue of its own, which is left empty of live work of the measured type.

    `progress(stage, done, total)` is called now and then. The backend must be migrated.
    """
    queue = f"bench-{uuid4().hex[:8]}"
    executor = ActivityExecutor(backend, queue)
    finished = 0
    all_done = asyncio.Event()

    async def handle(value: str) -> int:
        nonlocal finished
        finished += 1
        if finished == plan.activities:
            all_done.set()
        return len(value)

    def report(stage: str, done: int, total: int) -> None:
        if progress is not None:
            progress(stage, done, total)

    definition = activity(TYPE, timeout=60)(handle)

    async def fill(stage: str, name: str, count: int, delay: float = 0) -> None:
        await _fill(
            executor,
            name,
            count=count,
            delay=delay,
            payload="x" * plan.payload_bytes,
            stage=stage,
            report=report,
        )

    await fill("foreign backlog", f"{TYPE}.foreign", plan.foreign)
    await fill("future backlog", TYPE, plan.future, 86_400)
    started = time.perf_counter()
    await fill("enqueue", TYPE, plan.activities)
    enqueue_seconds = time.perf_counter() - started

    engine = WorkerEngine(
        backend,
        activities=[definition],
        queue_name=queue,
        max_workers=plan.max_workers,
    )
    cpu = time.process_time()
    started = time.perf_counter()
    await engine.start()
    try:
        while not all_done.is_set():
            report("process", finished, plan.activities)
            try:
                async with asyncio.timeout(0.5):
                    await all_done.wait()
            except TimeoutError:
                continue
        # The last outcomes are stored after their handlers return; they belong to the work.
        await engine.flushed()
        process_seconds = time.perf_counter() - started
        cpu_seconds = time.process_time() - cpu
        report("process", plan.activities, plan.activities)
        latencies = await _latencies(executor, plan.latency_samples, report)
    finally:
        await engine.stop(grace=1)
    return BenchReport(
        backend=backend.capabilities.name,
        plan=plan,
        enqueued_per_second=round(plan.activities / enqueue_seconds, 1),
        processed_per_second=round(plan.activities / process_seconds, 1),
        cpu_seconds_per_1000=round(cpu_seconds * 1000 / plan.activities, 4),
        latency_ms_p50=_percentile(latencies, 0.50),
        latency_ms_p99=_percentile(latencies, 0.99),
    )


async def _fill(
    executor: ActivityExecutor,
    name: str,
    *,
    count: int,
    delay: float,
    payload: str,
    stage: str,
    report: Callable[[str, int, int], None],
) -> None:
    builder = executor.activity(name).payload(payload).delay(delay)
    for begin in range(0, count, ENQUEUE_BATCH):
        await executor.execute_many([builder] * min(ENQUEUE_BATCH, count - begin))
        report(stage, min(begin + ENQUEUE_BATCH, count), count)


async def _latencies(
    executor: ActivityExecutor, samples: int, report: Callable[[str, int, int], None]
) -> list[float]:
    """Milliseconds from enqueue to the awaited result, one at a time on an idle engine."""
    taken: list[float] = []
    for number in range(samples):
        started = time.perf_counter()
        future = await executor.activity(TYPE).payload("x").execute()
        await future
        taken.append((time.perf_counter() - started) * 1000)
        report("latency", number + 1, samples)
    return sorted(taken)


def _percentile(ordered: list[float], share: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3)


def machine() -> dict[str, str | int]:
    """Where the figures come from, for the record beside them."""
    return {
        "cpus": os.cpu_count() or 0,
        "platform": os.uname().machine,
        "kernel": os.uname().release,
    }
