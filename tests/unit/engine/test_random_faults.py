"""Engines on a backend that fails at random: whatever happens, every activity ends once and is not lost.

Each case is a seed; a seed that fails once is worth keeping.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from datetime import timedelta

import pytest
from tests.conformance.eventually import eventually
from tests.unit.engine.rig import QUICK, Rig

from runnerq import (
    ActivityContext,
    ActivityState,
    Retry,
    RetryPolicy,
    Snooze,
    WorkerEngine,
    activity,
)
from runnerq.storage.records import EventKind
from runnerq.testing import FaultyBackend

SOON = RetryPolicy(base=timedelta(milliseconds=2), cap=timedelta(milliseconds=20))
FAULTY_SECONDS = 1.5
COUNT = 300

FAILING = ("claim", "acknowledge", "heartbeat_blocking", "still_held", "reap", "register_engine")
LOSING = ("acknowledge", "heartbeat_blocking", "still_held", "register_engine", "extend_lease")
"""Not `claim`: what a claim took is not known to anybody when its answer is lost, until its lease ends."""


@activity("async", retry=SOON)
async def plain(number: int, ctx: ActivityContext) -> int:
    await asyncio.sleep(0.001 * (number % 7))
    if number % 5 == 0 and ctx.attempt < 2:
        raise ValueError("once")
    if number % 11 == 0 and ctx.attempt < 2:
        raise Retry(after=0.005)
    return number


@activity("sync", retry=SOON)
def sync(number: int) -> int:
    time.sleep(0.001 * (number % 3))
    return number


@activity("late", retry=SOON)
async def late(number: int, ctx: ActivityContext) -> int:
    """Times out at first, and swallows it now and then."""
    if ctx.attempt == 1:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if number % 2:
                raise
    return number


snoozed: set[int] = set()


@activity("snooze", retry=SOON)
async def snooze(number: int) -> int:
    if number not in snoozed:
        snoozed.add(number)
        raise Snooze(0.01)
    return number


HANDLERS = (plain, sync, late, snooze)


async def make_trouble(backends: list[FaultyBackend], luck: random.Random) -> None:
    until = time.monotonic() + FAULTY_SECONDS
    while time.monotonic() < until:
        backend = luck.choice(backends)
        match luck.randrange(6):
            case 0:
                backend.fail(luck.choice(FAILING), times=luck.randrange(1, 6))
            case 1:
                backend.lose_answer(luck.choice(LOSING), times=luck.randrange(1, 4))
            case 2:
                backend.delay(luck.choice(FAILING), seconds=luck.random() * 0.05)
            case 3:
                backend.fail(luck.choice(FAILING), error=ZeroDivisionError("a bug of the backend"))
            case 4:
                backend.cut_off()
            case _:
                backend.heal()
        await asyncio.sleep(luck.random() * 0.05)
    for backend in backends:
        backend.heal()


@pytest.mark.parametrize("seed", range(6))
async def test_every_activity_ends_once_whatever_fails_meanwhile(rig: Rig, seed: int) -> None:
    luck = random.Random(seed)  # noqa: S311 - a seed is the point
    snoozed.clear()
    settings = {**QUICK, "heartbeat_interval": 0.05, "liveness_timeout": 0.4, "max_workers": 8}
    backends = [FaultyBackend(rig.memory) for _ in range(2)]
    engines = [
        WorkerEngine(backend, activities=HANDLERS, **settings)  # pyright: ignore[reportArgumentType]
        for backend in backends
    ]
    for engine in engines:
        await engine.start()
    try:
        trouble = asyncio.create_task(make_trouble(backends, luck))
        futures = {
            number: await rig.enqueue(
                luck.choice(HANDLERS).type, number, max_attempts=0, timeout=0.03
            )
            for number in range(COUNT)
        }
        await trouble
        # A timeout of 0.03 s is short for a busy machine; attempts are without limit here.
        for number, future in futures.items():
            assert await future.get_result(timeout=30) == number
        for future in futures.values():
            events = Counter(await rig.events(future))
            assert events[EventKind.COMPLETED] == 1
        await eventually(lambda: all(engine.busy == 0 for engine in engines))
        stats = await rig.memory.stats("q")
        assert stats.counts[ActivityState.COMPLETED] == COUNT
        assert sum(stats.counts.values()) == COUNT
        await eventually(lambda: all(engine.healthy for engine in engines))
    finally:
        for engine in engines:
            await engine.stop(grace=1)
