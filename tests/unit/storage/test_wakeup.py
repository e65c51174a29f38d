"""Wakeup: a hint that is never missed, from any thread, to any event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.eventually import WITHIN

from runnerq.storage.wakeup import Wakeup

if TYPE_CHECKING:
    from collections.abc import Generator


async def test_a_notification_between_look_and_wait_is_not_missed() -> None:
    wakeup = Wakeup()
    seen = wakeup.version()
    wakeup.notify()
    async with asyncio.timeout(WITHIN):
        assert await wakeup.wait(seen, timeout=WITHIN) != seen


async def test_a_wait_ends_after_its_time_without_a_notification() -> None:
    wakeup = Wakeup()
    seen = wakeup.version()
    started = time.monotonic()
    assert await wakeup.wait(seen, timeout=0.05) == seen
    assert 0.05 <= time.monotonic() - started < WITHIN


async def test_every_waiter_is_woken() -> None:
    wakeup = Wakeup()
    waits = [asyncio.ensure_future(wakeup.wait(wakeup.version(), WITHIN)) for _ in range(20)]
    await asyncio.sleep(0)
    wakeup.notify()
    async with asyncio.timeout(WITHIN):
        assert await asyncio.gather(*waits) == [1] * 20


async def test_another_thread_may_notify() -> None:
    wakeup = Wakeup()
    waiting = asyncio.ensure_future(wakeup.wait(wakeup.version(), WITHIN))
    await asyncio.sleep(0)
    thread = threading.Thread(target=wakeup.notify)
    thread.start()
    async with asyncio.timeout(WITHIN):
        assert await waiting == 1
    thread.join()


def test_loops_of_several_threads_may_wait_at_once() -> None:
    wakeup = Wakeup()
    ready = threading.Barrier(4)
    versions: list[int] = []

    def loop() -> None:
        async def wait() -> int:
            seen = wakeup.version()
            ready.wait(WITHIN)
            return await wakeup.wait(seen, WITHIN)

        versions.append(asyncio.run(wait()))

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    ready.wait(WITHIN)
    wakeup.notify()
    for thread in threads:
        thread.join(WITHIN)
    assert versions == [1, 1, 1]


async def test_a_waiter_that_is_cancelled_leaves_nothing_behind() -> None:
    wakeup = Wakeup()
    waiting = asyncio.ensure_future(wakeup.wait(wakeup.version(), WITHIN))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    wakeup.notify()
    assert waiting.cancelled()
    assert wakeup.version() == 1


def test_a_waiter_whose_loop_was_closed_disturbs_nobody() -> None:
    wakeup = Wakeup()

    async def begin_to_wait() -> Generator[Any, Any, int]:
        waiting = wakeup.wait(wakeup.version(), WITHIN).__await__()
        next(waiting)
        return waiting

    abandoned = asyncio.run(begin_to_wait())
    wakeup.notify()
    assert wakeup.version() == 1
    with pytest.raises(asyncio.CancelledError):
        abandoned.throw(asyncio.CancelledError)
