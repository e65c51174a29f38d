"""drain: runs what is claimable to its end, so that a test can look at what became of it."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from runnerq.engine import WorkerEngine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runnerq.activity import ActivityDefinition
    from runnerq.registry import ActivityHandlerRegistry
    from runnerq.storage.ports import Storage
    from runnerq.storage.records import TypeDemand
    from runnerq.testing.clock import VirtualClock

_LOOK = 0.005
_FURTHEST_MS = 366 * 24 * 3_600_000
"""How far a clock is moved for work that is due later."""


async def drain(
    backend: Storage,
    activities: ActivityHandlerRegistry | Iterable[ActivityDefinition[Any, Any]],
    *,
    queue: str | None = None,
    clock: VirtualClock | None = None,
    timeout: float = 30.0,
    **settings: Any,
) -> None:
    """Run everything that is claimable, and what it enqueues, until nothing is left to run.

    Delayed and backing-off work is left alone unless `clock` is given, the one the backend was made
    with: it is then moved from one due time to the next, so hours pass at once. `settings` are those of
    `WorkerEngine`. Raises TimeoutError after `timeout` seconds, naming what still waits or runs.
    """
    name = queue if queue is not None else backend.default_queue
    handlers = list(activities)
    until = time.monotonic() + timeout
    await backend.open()
    while True:
        # An engine of its own for each instant: one that lives through a jump of the clock looks dead.
        while await _live(backend, handlers, name):
            await _run_claimable(backend, handlers, name, until, settings)
        if clock is None:
            return
        wait_ms = await _next_due_ms(backend, handlers, name)
        if wait_ms is None:
            return
        clock.advance(timedelta(milliseconds=wait_ms))


async def _run_claimable(
    backend: Storage,
    handlers: list[ActivityDefinition[Any, Any]],
    queue: str,
    until: float,
    settings: dict[str, Any],
) -> None:
    quick: dict[str, Any] = {"shortest_poll": 0.002, "longest_poll": 0.02, **settings}
    engine = WorkerEngine(backend, activities=handlers, queue_name=queue, **quick)
    await engine.start()
    try:
        while live := await _live(backend, handlers, queue):
            if time.monotonic() > until:
                raise TimeoutError(
                    "not drained: "
                    + ", ".join(
                        f"{d.claimable} waiting, {d.running} running of {d.type}" for d in live
                    )
                )
            await asyncio.sleep(_LOOK)
    finally:
        await engine.stop(grace=max(0.0, until - time.monotonic()))


async def _live(
    backend: Storage, handlers: list[ActivityDefinition[Any, Any]], queue: str
) -> list[TypeDemand]:
    found = await _demand(backend, handlers, queue)
    return [demand for demand in found if demand.claimable or demand.running]


async def _next_due_ms(
    backend: Storage, handlers: list[ActivityDefinition[Any, Any]], queue: str
) -> int | None:
    """Milliseconds until something is due, exactly; None when nothing is."""
    if not any(demand.future for demand in await _demand(backend, handlers, queue)):
        return None
    low, high = 0, 1
    while not await _due_within(backend, handlers, queue, high):
        low, high = high, high * 2
        if high > _FURTHEST_MS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if await _due_within(backend, handlers, queue, middle):
            high = middle
        else:
            low = middle
    return high


async def _due_within(
    backend: Storage, handlers: list[ActivityDefinition[Any, Any]], queue: str, horizon_ms: int
) -> bool:
    found = await _demand(backend, handlers, queue, horizon_ms)
    return any(demand.due_soon or demand.claimable for demand in found)


async def _demand(
    backend: Storage,
    handlers: list[ActivityDefinition[Any, Any]],
    queue: str,
    horizon_ms: int = 0,
) -> list[TypeDemand]:
    handled = {definition.type for definition in handlers}
    [answer] = await backend.demand([queue], horizon_ms=horizon_ms)
    return [demand for demand in answer.types if demand.type in handled]
