"""Idle engines: they ask little of the store, and notice work at once all the same."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.conformance.eventually import WITHIN, eventually

from runnerq import activity

if TYPE_CHECKING:
    from tests.conformance.engines import Engines
    from tests.conformance.station import Station

    from runnerq.storage.ports import Storage
    from runnerq.storage.records import Claim, ClaimRequest

ENGINES = 50
WATCHED_SECONDS = 1.5


class Counting:
    """Counts the claims that reach a backend."""

    def __init__(self, backend: Storage) -> None:
        self._backend = backend
        self.claims = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def claim(self, request: ClaimRequest) -> list[Claim]:
        self.claims += 1
        return await self._backend.claim(request)


async def test_fifty_idle_engines_ask_little_and_one_of_them_takes_new_work_at_once(
    station: Station, engines: Engines
) -> None:
    @activity("work")
    async def work() -> str:
        return "done"

    counting = Counting(station.backend)
    for _ in range(ENGINES):
        await engines.start(
            work,
            backend=counting,  # pyright: ignore[reportArgumentType]
            max_workers=1,
            heartbeat_interval=5.0,
            liveness_timeout=15.0,
            reaper_interval=5.0,
            shortest_poll=0.02,
            longest_poll=2.0,
        )
    await settled(counting)
    before, since = counting.claims, time.monotonic()
    await eventually(lambda: time.monotonic() - since >= WATCHED_SECONDS)
    asked = counting.claims - before
    # At most one poll in two seconds each, and one more for those whose turn has just come.
    assert asked <= ENGINES * 2

    future = await engines.executor.activity("work").execute()
    started = time.monotonic()
    assert await future.get_result(timeout=WITHIN) == "done"
    assert time.monotonic() - started < WITHIN / 4


async def settled(counting: Counting) -> None:
    """Until their polls have slowed down: fewer than one in two engines asks within 0.3 s."""

    async def slow() -> bool:
        before, since = counting.claims, time.monotonic()
        await eventually(lambda: time.monotonic() - since >= 0.3)
        return counting.claims - before < ENGINES / 2

    await eventually(slow)
