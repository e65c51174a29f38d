"""How often an engine looks: for work, for lost work, and for due work where the backend cannot.

The loops run in virtual time, so minutes of waiting are exact and take none.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import pytest
from tests.conformance.eventually import eventually
from tests.virtual_time import run_in_virtual_time

from runnerq import EngineConfig, NoopMetrics, WorkerEngine, activity
from runnerq.engine.claim import Claimer
from runnerq.engine.gate import Gate
from runnerq.engine.reap import Reaper
from runnerq.engine.slots import Slots
from runnerq.engine.tick import SchedulePromoter
from runnerq.storage.memory import MemoryBackend
from runnerq.storage.ports import Capabilities
from runnerq.storage.records import ActivityState, Reaped
from runnerq.storage.wakeup import Wakeup
from runnerq.testing import FaultyBackend

if TYPE_CHECKING:
    from collections.abc import Callable

    from runnerq.engine.service import Service
    from runnerq.storage.ports import Storage
    from runnerq.storage.records import ClaimRequest

JITTER = 0.3
"""How far from its nominal length an idle pause may be, as a share of it."""


class Recorder:
    """A backend with nothing in it that notes when it is asked, in virtual seconds."""

    def __init__(self) -> None:
        self.signal = Wakeup()
        self.claims: list[float] = []
        self.reaps: list[tuple[float, int]] = []
        self.promotions: list[tuple[float, int]] = []
        self.lost = 0
        """How many lost activities the reaper finds."""
        self.due = 0
        """How many activities the promoter finds."""

    def work_signal(self, queue: str) -> Wakeup:
        return self.signal

    async def claim(self, request: ClaimRequest) -> list[Any]:
        self.claims.append(_now())
        return []

    async def reap(self, queue: str, *, limit: int, liveness_ms: int) -> list[Reaped]:
        self.reaps.append((_now(), limit))
        taken = min(limit, self.lost)
        self.lost -= taken
        lost = Reaped(id=uuid4(), type="work", attempt=1, state=ActivityState.PENDING)
        return [lost] * taken

    async def process_scheduled(self, queue: str, *, limit: int) -> int:
        self.promotions.append((_now(), limit))
        moved = min(limit, self.due)
        self.due -= moved
        return moved


def _now() -> float:
    return asyncio.get_running_loop().time()


def _gaps(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


def claimer(storage: Recorder) -> Claimer:
    return Claimer(
        storage=cast("Any", storage),
        config=EngineConfig(queue_name="q"),
        engine_id=uuid4(),
        types=("work",),
        slots=Slots(4, cast("Any", None), lambda attempt, outcome: None),
        gate=Gate(),
        metrics=NoopMetrics(),
        on_claimed=lambda claims: None,
    )


async def _for(seconds: float, service: Service) -> None:
    service.start()
    await asyncio.sleep(seconds)
    await service.stop()


def test_an_idle_claimer_asks_more_and_more_rarely() -> None:
    storage = Recorder()

    async def main() -> None:
        await _for(30, claimer(storage))

    run_in_virtual_time(main())
    gaps = _gaps(storage.claims)
    assert len(gaps) > 15
    for number, gap in enumerate(gaps):
        nominal = min(0.02 * 2**number, 2.0)
        assert gap == pytest.approx(nominal, rel=JITTER)


def test_a_claimer_that_is_woken_asks_at_once_and_is_attentive_again() -> None:
    storage = Recorder()

    async def main() -> float:
        service = claimer(storage)
        service.start()
        await asyncio.sleep(30)
        woken = _now()
        storage.signal.notify()
        await asyncio.sleep(1)
        await service.stop()
        return woken

    woken = run_in_virtual_time(main())
    after = [time for time in storage.claims if time >= woken]
    assert after[0] == woken
    assert _gaps(after)[0] == pytest.approx(0.02, rel=JITTER)


def test_the_reaper_comes_about_every_five_seconds_for_a_hundred() -> None:
    storage = Recorder()
    reaper = Reaper(
        storage=cast("Any", storage),
        config=EngineConfig(queue_name="q"),
        on_reaped=lambda reaped: None,
    )

    async def main() -> None:
        await _for(300, reaper)

    run_in_virtual_time(main())
    assert {limit for _, limit in storage.reaps} == {100}
    for gap in _gaps([0.0, *(time for time, _ in storage.reaps)]):
        assert gap == pytest.approx(5.0, rel=0.2)


def test_the_reaper_takes_all_there_is_in_hundreds() -> None:
    storage = Recorder()
    storage.lost = 250
    told: list[int] = []
    reaper = Reaper(
        storage=cast("Any", storage),
        config=EngineConfig(queue_name="q"),
        on_reaped=lambda reaped: told.append(len(reaped)),
    )

    async def main() -> int:
        return await reaper.sweep()

    assert run_in_virtual_time(main()) == 250
    assert told == [100, 100, 50]


def test_due_work_is_promoted_at_every_poll_interval_in_hundreds() -> None:
    storage = Recorder()
    storage.due = 150
    promoter = SchedulePromoter(
        storage=cast("Any", storage),
        config=EngineConfig(queue_name="q", schedule_poll_interval=30.0),
    )

    async def main() -> None:
        await _for(100, promoter)

    run_in_virtual_time(main())
    assert storage.promotions == [(0, 100), (0, 100), (30, 100), (60, 100), (90, 100)]


class NeedsPromotion(FaultyBackend):
    """The memory backend, saying that it does not schedule by itself."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(name="needs-promotion", durable=False, cross_process=False)


async def test_the_promoter_runs_where_the_backend_does_not_schedule_by_itself() -> None:
    backend = await _engine_ran_on(NeedsPromotion)
    assert backend.calls["process_scheduled"] > 0


async def test_no_promoter_runs_where_the_backend_schedules_by_itself() -> None:
    backend = await _engine_ran_on(FaultyBackend)
    assert backend.calls["process_scheduled"] == 0


async def _engine_ran_on(kind: type[FaultyBackend]) -> FaultyBackend:
    """Three visits of the reaper long, on the memory backend wrapped in `kind`."""
    # The wrapper hands its calls on at run time, which a type checker takes for missing methods.
    backend = cast("Callable[[Storage], FaultyBackend]", kind)(MemoryBackend())

    @activity("work")
    async def work() -> None:
        """Nothing to do."""

    engine = WorkerEngine(
        backend, activities=[work], reaper_interval=0.02, schedule_poll_interval=0.01
    )
    await engine.start()
    try:
        await eventually(lambda: backend.calls["reap"] >= 3)
    finally:
        await engine.stop(grace=0)
    return backend


def test_a_backend_that_says_nothing_does_not_schedule_by_itself() -> None:
    assert not Capabilities(name="any").native_schedule
